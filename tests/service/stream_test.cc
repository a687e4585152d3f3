// CheckLimitStream: frames of checks, results as they are ready, and how streams end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "api/check_message.h"
#include "service/check_stream_handler.h"
#include "tests/service/serving_fixture.h"
#include "tests/support/wait_until.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

// How often each request_id has been answered.
using Answers = std::map<std::string, int>;

std::string IdOf(int check) { return std::to_string(check); }

// A frame of `count` checks, with ids from `first` on.
v1::CheckLimitsRequest FrameOf(int count, int first, const std::string& filler = "") {
  v1::CheckLimitsRequest frame;
  for (int i = first; i < first + count; ++i) {
    auto& check = *frame.add_checks();
    check.set_domain("shop");
    check.set_request_id(IdOf(i));
    (*check.mutable_attributes())["user"] = IdOf(i % 7);
    if (!filler.empty()) (*check.mutable_attributes())["filler"] = filler;
  }
  return frame;
}

Answers EachOnce(int checks) {
  Answers answers;
  for (int i = 0; i < checks; ++i) answers[IdOf(i)] = 1;
  return answers;
}

// The caller's side of a stream. One thread may call Write and another one Read.
class Caller {
 public:
  using Stub = v1::RateLimiter::Stub;

  explicit Caller(Stub& stub, std::chrono::milliseconds timeout = seconds(60)) {
    context_.set_deadline(std::chrono::system_clock::now() + timeout);
    stream_ = stub.CheckLimitStream(&context_);
  }

  bool Write(const v1::CheckLimitsRequest& frame) { return stream_->Write(frame); }
  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }

  // Reads until `count` results have come. Returns false if the stream ends earlier.
  bool Read(std::size_t count) {
    while (results_ < count) {
      v1::CheckLimitsResponse frame;
      if (!stream_->Read(&frame)) return false;
      Take(frame);
    }
    return true;
  }
  grpc::Status ReadToTheEnd() {
    v1::CheckLimitsResponse frame;
    while (stream_->Read(&frame)) Take(frame);
    return stream_->Finish();
  }

  const Answers& answers() const { return answers_; }
  int errors() const { return errors_; }

 private:
  void Take(const v1::CheckLimitsResponse& frame) {
    EXPECT_GE(frame.results_size(), 1);
    EXPECT_LE(frame.results_size(), 1000);
    for (const auto& result : frame.results()) {
      ++results_;
      errors_ += result.has_error();
      ++answers_[result.has_error() ? result.error().request_id() : result.response().request_id()];
    }
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::CheckLimitsRequest, v1::CheckLimitsResponse>>
      stream_;
  std::size_t results_ = 0;
  int errors_ = 0;
  Answers answers_;
};

class StreamTest : public test::ServingTest {
 protected:
  StreamTest() {
    Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
    rule.limits.limits = {FixedWindow{.limit = 100, .window = seconds(60)}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  // Expects that the server still serves, on this connection too.
  void ExpectServing() {
    Caller caller(*stub_);
    EXPECT_TRUE(caller.Write(FrameOf(3, 0)));
    caller.WritesDone();
    const auto status = caller.ReadToTheEnd();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(EachOnce(3), caller.answers());
  }
};

TEST_F(StreamTest, FramesOfSixteen_EveryCheckIsAnsweredOnce) {
  constexpr int kFrames = 1000;
  Caller caller(*stub_);
  std::thread writer([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(caller.Write(FrameOf(16, 16 * i)));
    caller.WritesDone();
  });
  const auto status = caller.ReadToTheEnd();
  writer.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(EachOnce(16 * kFrames), caller.answers());
  EXPECT_EQ(0, caller.errors());
}

TEST_F(StreamTest, CallerWaitsForResults_GetsThemWhileTheStreamIsOpen) {
  Caller caller(*stub_);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(caller.Write(FrameOf(1000, 1000 * i)));
    ASSERT_TRUE(caller.Read(1000 * (i + 1)));
  }
  caller.WritesDone();
  EXPECT_TRUE(caller.ReadToTheEnd().ok());
  EXPECT_EQ(EachOnce(10'000), caller.answers());
}

TEST_F(StreamTest, HalfClose_OpenChecksAreAnsweredFirst) {
  store_.Hold();
  Caller caller(*stub_);
  ASSERT_TRUE(caller.Write(FrameOf(50, 0)));
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 50; }));
  caller.WritesDone();
  std::thread later([&] { store_.Release(); });
  const auto status = caller.ReadToTheEnd();
  later.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(EachOnce(50), caller.answers());
}

TEST_F(StreamTest, NothingSent_EndsWithOk) {
  Caller caller(*stub_);
  caller.WritesDone();
  EXPECT_TRUE(caller.ReadToTheEnd().ok());
}

TEST_F(StreamTest, BadItem_FailsAlone) {
  auto frame = FrameOf(3, 0);
  frame.mutable_checks(1)->clear_domain();
  Caller caller(*stub_);
  ASSERT_TRUE(caller.Write(frame));
  ASSERT_TRUE(caller.Read(3));
  EXPECT_EQ(1, caller.errors());
  ASSERT_TRUE(caller.Write(FrameOf(3, 3)));
  caller.WritesDone();
  EXPECT_TRUE(caller.ReadToTheEnd().ok());
  EXPECT_EQ(EachOnce(6), caller.answers());
}

// The checks before the bad frame are answered.
TEST_F(StreamTest, BadFrame_EndsTheStream) {
  for (const int count : {0, 1001}) {
    store_.Hold();
    Caller caller(*stub_);
    ASSERT_TRUE(caller.Write(FrameOf(5, 0)));
    ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 5; }));
    ASSERT_TRUE(caller.Write(FrameOf(count, 5)));
    store_.Release();
    const auto status = caller.ReadToTheEnd();
    EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, status.error_code()) << count;
    EXPECT_THAT(status.error_message(), HasSubstr("checks")) << count;
    EXPECT_EQ(EachOnce(5), caller.answers());
  }
  const auto malformed =
      test::CallRaw(channel_, "/sluice.v1.RateLimiter/CheckLimitStream", "\x0a\x05x");
  EXPECT_EQ(grpc::StatusCode::INVALID_ARGUMENT, malformed.status.error_code());
  ExpectServing();
}

// While the store does not answer, the server accepts kMaxOpenChecks checks and at most one
// more frame.
TEST_F(StreamTest, OpenChecks_AreBounded) {
  constexpr int kFrame = 500;
  constexpr int kFrames = 40;
  store_.Hold();
  Caller caller(*stub_);
  std::thread writer([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(caller.Write(FrameOf(kFrame, kFrame * i)));
    caller.WritesDone();
  });
  const std::size_t most = CheckStreamHandler::kMaxOpenChecks + kFrame;
  EXPECT_TRUE(test::WaitUntil(seconds(20),
                              [&] { return store_.held() >= CheckStreamHandler::kMaxOpenChecks; }));
  EXPECT_FALSE(test::WaitUntil(milliseconds(300), [&] { return store_.held() > most; }));
  store_.Release();
  const auto status = caller.ReadToTheEnd();
  writer.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(EachOnce(kFrame * kFrames), caller.answers());
}

// The bytes of open checks are bounded, too. Here the checks are few, but large.
TEST_F(StreamTest, BytesOfOpenChecks_AreBounded) {
  constexpr int kFrames = 2000;
  const std::string filler(8192, 'x');
  store_.Hold();
  Caller caller(*stub_);
  std::thread writer([&] {
    for (int i = 0; i < kFrames; ++i) EXPECT_TRUE(caller.Write(FrameOf(1, i, filler)));
    caller.WritesDone();
  });
  const std::size_t most = CheckStreamHandler::kMaxOpenBytes / filler.size() + 1;
  EXPECT_TRUE(test::WaitUntil(seconds(20), [&] { return store_.held() > most - 20; }));
  EXPECT_FALSE(test::WaitUntil(milliseconds(300), [&] { return store_.held() > most; }));
  store_.Release();
  const auto status = caller.ReadToTheEnd();
  writer.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(EachOnce(kFrames), caller.answers());
}

// If a caller does not read, the server soon stops reading from it. When the caller reads, the
// server serves it again.
TEST_F(StreamTest, CallerThatDoesNotRead_IsPausedThenAnswered) {
  constexpr int kFrames = 400;
  Caller caller(*stub_);
  std::atomic<int> written = 0;
  std::thread writer([&] {
    for (int i = 0; i < kFrames; ++i) {
      EXPECT_TRUE(caller.Write(FrameOf(1000, 1000 * i)));
      ++written;
    }
    caller.WritesDone();
  });
  int before = -1;
  ASSERT_TRUE(test::WaitUntil(seconds(30), [&] {
    std::this_thread::sleep_for(milliseconds(300));
    return std::exchange(before, written) == written;
  }));
  // Some frames that the server has not read are in buffers of gRPC and of the kernel.
  EXPECT_LT(written, kFrames / 2) << "the server has not stopped reading";
  ExpectServing();
  const auto status = caller.ReadToTheEnd();
  writer.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(EachOnce(1000 * kFrames), caller.answers());
}

TEST_F(StreamTest, CancelMidway_ServerKeepsServing) {
  for (int round = 0; round < 20; ++round) {
    store_.Hold();
    Caller caller(*stub_);
    ASSERT_TRUE(caller.Write(FrameOf(100, 0)));
    ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 100; }));
    caller.Cancel();
    EXPECT_EQ(grpc::StatusCode::CANCELLED, caller.ReadToTheEnd().error_code());
    store_.Release();
    ExpectServing();
  }
}

TEST_F(StreamTest, CancelUnderLoad_ServerKeepsServing) {
  for (int round = 0; round < 20; ++round) {
    Caller caller(*stub_);
    std::thread writer([&] {
      for (int i = 0; caller.Write(FrameOf(100, 100 * i)); ++i) {
      }
    });
    caller.Read(1000);
    caller.Cancel();
    writer.join();
    EXPECT_EQ(grpc::StatusCode::CANCELLED, caller.ReadToTheEnd().error_code());
  }
  ExpectServing();
}

TEST_F(StreamTest, DeadlineOfTheStream_EndsIt) {
  Caller caller(*stub_, milliseconds(100));
  EXPECT_EQ(grpc::StatusCode::DEADLINE_EXCEEDED, caller.ReadToTheEnd().error_code());
  ExpectServing();
}

// Accepted checks are answered. The status tells the caller that other checks were not decided.
TEST_F(StreamTest, ServerStops_AnswersAcceptedChecks_ThenEndsTheStream) {
  store_.Hold();
  Caller caller(*stub_);
  Caller idle(*stub_);
  ASSERT_TRUE(caller.Write(FrameOf(20, 0)));
  ASSERT_TRUE(idle.Write(FrameOf(1, 0)));
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return store_.held() == 21; }));
  std::thread stopper([&] { Stop(seconds(30)); });
  ASSERT_TRUE(test::WaitUntil(seconds(10), [&] { return !health_.serving(); }));
  store_.Release();
  for (Caller* each : {&caller, &idle}) {
    const auto status = each->ReadToTheEnd();
    EXPECT_EQ(grpc::StatusCode::UNAVAILABLE, status.error_code()) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  }
  EXPECT_EQ(EachOnce(20), caller.answers());
  EXPECT_EQ(EachOnce(1), idle.answers());
  const SteadyTime begin = SteadyNow();
  stopper.join();
  EXPECT_LT(SteadyNow() - begin, seconds(10)) << "both streams have ended";
}

TEST_F(StreamTest, Stop_CallerDoesNotRead_EndsWithTheDrain) {
  Caller caller(*stub_);
  std::thread writer([&] {
    for (int i = 0; caller.Write(FrameOf(1000, 1000 * i)); ++i) {
    }
  });
  ASSERT_TRUE(test::WaitUntil(seconds(20), [&] { return memory_.size() > 0; }));
  const SteadyTime begin = SteadyNow();
  Stop(milliseconds(500));
  EXPECT_LT(SteadyNow() - begin, seconds(10));
  writer.join();
  EXPECT_FALSE(caller.ReadToTheEnd().ok());
}

TEST_F(StreamTest, ManyStreamsOnFewThreads_AreAllAnswered) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        Caller caller(*stub_);
        for (int frame = 0; frame < 10; ++frame) caller.Write(FrameOf(20, 20 * frame));
        caller.WritesDone();
        EXPECT_TRUE(caller.ReadToTheEnd().ok());
        EXPECT_EQ(EachOnce(200), caller.answers());
      }
    });
  }
  for (auto& caller : callers) caller.join();
}

}  // namespace
}  // namespace sluice
