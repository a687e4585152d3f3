// Handlers by themselves: what they start in one turn of the loop, what they send at its end, and
// what they allocate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <memory>
#include <string>
#include <vector>

#include "limiter/limiter.h"
#include "service/check_limit_handler.h"
#include "service/check_limits_handler.h"
#include "service/check_stream_handler.h"
#include "service/health_service.h"
#include "service/reflection_handler.h"
#include "service/reflection_service.h"
#include "store/memory/memory_store.h"
#include "tests/support/allocations.h"
#include "tests/support/fake_call.h"
#include "tests/support/manual_loop.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// Answers at once, or holds what comes.
class SwitchedStore final : public Store {
 public:
  explicit SwitchedStore(const Clock& clock) : memory_(clock, {}) {}

  void Submit(StoreCheck& check) override {
    ++submitted;
    if (holding) return held_.push_back(&check);
    if (!admitting) return memory_.Submit(check);
    for (CounterCheck& counter : check.counters) counter.verdict = {.admitted = true};
    check.admitted = true;
    check.OnDecided();
  }
  void Reset(StoreReset& reset) override { memory_.Reset(reset); }
  void Undo(const StoreCheck& check) override { memory_.Undo(check); }

  void Release(std::size_t count = 1'000'000) {
    std::vector<StoreCheck*> released;
    released.swap(held_);
    for (StoreCheck* check : released) {
      if (count == 0) {
        held_.push_back(check);
      } else {
        --count;
        memory_.Submit(*check);
      }
    }
  }

  bool holding = false;
  bool admitting = false;  // without a look at any counter, which would cost memory
  std::size_t submitted = 0;

 private:
  MemoryStore memory_;
  std::vector<StoreCheck*> held_;
};

class HandlersTest : public testing::Test {
 protected:
  HandlersTest() {
    Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
    rule.limits.limits = {TokenBucket{.rate = 100, .period = seconds(1), .burst = 1'000'000}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  static v1::CheckLimitRequest Check(int id) {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = "a user with a longer name";
    request.set_request_id(std::to_string(id));
    return request;
  }
  static std::string Frame(int count, int first = 0) {
    v1::CheckLimitsRequest frame;
    for (int i = 0; i < count; ++i) *frame.add_checks() = Check(first + i);
    return frame.SerializeAsString();
  }
  static int ResultsOf(const std::string& bytes) {
    v1::CheckLimitsResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    return response.results_size();
  }

  ManualLoop loop_;
  ManualClock clock_{Time(seconds(1'000'000))};
  MetricsRegistry metrics_;
  SwitchedStore store_{clock_};
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {.store_timeout = seconds(10)}};
  CheckItemPool items_{limiter_};
  std::string buffer_;
  FakeCall call_;
};

TEST_F(HandlersTest, CheckLimit_InTheSteadyState_AllocatesNothing) {
  if (!CountsAllocations()) GTEST_SKIP();
  CheckLimitHandler handler(limiter_, buffer_);
  handler.Attach(call_);
  const std::string request = Check(7).SerializeAsString();
  store_.admitting = true;
  for (int i = 0; i < 3; ++i) handler.Serve(call_, request);
  const std::size_t before = Allocations();
  handler.Serve(call_, request);
  EXPECT_EQ(before, Allocations());
  v1::CheckLimitResponse response;
  ASSERT_TRUE(response.ParseFromString(call_.response));
  EXPECT_EQ(v1::DECISION_ALLOWED, response.decision());
  EXPECT_EQ(1, response.limits_size());
}

// Whoever cancels calls must not hold the slots that they were granted.
class CancelledHolders : public HandlersTest {
 protected:
  CancelledHolders() {
    Rule rule{.name = "slots"};
    rule.limits.limits = {Concurrency{.limit = 5, .ttl = std::chrono::hours(1)}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  void ExpectAllFree() {
    call_.caller_gone = false;
    CheckLimitHandler handler(limiter_, buffer_);
    handler.Attach(call_);
    store_.holding = false;
    handler.Serve(call_, Check(7).SerializeAsString());
    v1::CheckLimitResponse response;
    ASSERT_TRUE(response.ParseFromString(call_.response));
    EXPECT_EQ(response.limits(0).remaining(), 4u);
  }
};

TEST_F(CancelledHolders, CheckLimit_GivesItsLeaseBack) {
  CheckLimitHandler handler(limiter_, buffer_);
  handler.Attach(call_);
  const std::string request = Check(7).SerializeAsString();
  for (int i = 0; i < 20; ++i) {
    store_.holding = true;
    handler.Serve(call_, request);
    call_.caller_gone = true;
    handler.OnCancel();
    store_.Release();
  }
  ExpectAllFree();
}

TEST_F(CancelledHolders, Batch_GivesAllLeasesBackAndNoneOfOthers) {
  CheckLimitsHandler handler(loop_, items_, buffer_);
  handler.Attach(call_);
  for (int i = 0; i < 5; ++i) {
    const std::string request = Frame(200);
    store_.holding = true;
    loop_.Turn([&] { handler.Serve(call_, request); });
    store_.Release(3);
    call_.caller_gone = true;
    handler.OnCancel();
    loop_.TurnUntilIdle();
    store_.Release();
  }
  ExpectAllFree();
}

TEST_F(CancelledHolders, Stream_GivesLeasesBackThatHaveNotBeenSent) {
  CheckStreamHandler handler(loop_, items_);
  handler.Attach(call_);
  for (int i = 0; i < 5; ++i) {
    loop_.Turn([&] {
      handler.OnStart(call_);
      store_.holding = true;
      handler.OnMessage(Frame(20));
      store_.Release(3);
      handler.OnCancel();
      store_.Release();
    });
  }
  ExpectAllFree();
}

class BatchHandlerTest : public HandlersTest {
 protected:
  BatchHandlerTest() { handler_.Attach(call_); }

  CheckLimitsHandler handler_{loop_, items_, buffer_};
};

TEST_F(BatchHandlerTest, LongBatch_IsStartedBitByBit_AnsweredWholeAndInOrder) {
  const std::string request = Frame(1000);
  loop_.Turn([&] { handler_.Serve(call_, request); });
  EXPECT_LE(store_.submitted, 2 * CheckLimitsHandler::kChecksPerTurn);
  for (int turn = 0; turn < 100 && call_.finished == 0; ++turn) {
    const std::size_t before = store_.submitted;
    loop_.Turn();
    EXPECT_LE(store_.submitted - before, CheckLimitsHandler::kChecksPerTurn);
  }
  ASSERT_EQ(1, call_.finished);
  v1::CheckLimitsResponse response;
  ASSERT_TRUE(response.ParseFromString(call_.response));
  ASSERT_EQ(1000, response.results_size());
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(std::to_string(i), response.results(i).response().request_id());
  }
}

TEST_F(BatchHandlerTest, Cancelled_StartsNoMoreAndWaitsForTheStore) {
  store_.holding = true;
  const std::string request = Frame(1000);
  loop_.Turn([&] { handler_.Serve(call_, request); });
  const std::size_t started = store_.submitted;
  handler_.OnCancel();
  EXPECT_LE(loop_.TurnUntilIdle(), 2);
  EXPECT_EQ(started, store_.submitted);
  EXPECT_EQ(0, call_.finished);
  store_.Release();
  EXPECT_EQ(1, call_.finished);

  store_.holding = false;
  handler_.Serve(call_, Frame(3));
  EXPECT_EQ(2, call_.finished);
  EXPECT_EQ(3, ResultsOf(call_.response)) << "as good as new";
}

class StreamHandlerTest : public HandlersTest {
 protected:
  StreamHandlerTest() {
    handler_.Attach(call_);
    handler_.OnStart(call_);
  }
  ~StreamHandlerTest() override {
    store_.Release();
    loop_.TurnUntilIdle();
  }

  int Results() const {
    int results = 0;
    for (const auto& frame : call_.sent) results += ResultsOf(frame);
    return results;
  }

  CheckStreamHandler handler_{loop_, items_};
};

TEST_F(StreamHandlerTest, ResultsOfATurn_LeaveInOneFrame) {
  loop_.Turn([&] {
    handler_.OnMessage(Frame(10));
    handler_.OnMessage(Frame(10, 10));
    EXPECT_TRUE(call_.sent.empty());
  });
  ASSERT_EQ(1U, call_.sent.size());
  EXPECT_EQ(20, ResultsOf(call_.sent[0]));
  store_.holding = true;
  loop_.Turn([&] { handler_.OnMessage(Frame(30)); });
  loop_.Turn([&] { store_.Release(20); });
  loop_.Turn([&] { store_.Release(10); });
  ASSERT_EQ(3U, call_.sent.size());
  EXPECT_EQ(20, ResultsOf(call_.sent[1]));
}

TEST_F(StreamHandlerTest, LargeFrame_IsStartedBitByBit) {
  loop_.Turn([&] {
    handler_.OnMessage(Frame(500));
    handler_.OnMessage(Frame(500, 500));
    EXPECT_EQ(CheckStreamHandler::kChecksPerTurn, store_.submitted);
  });
  handler_.OnHalfClose();
  EXPECT_EQ(0, call_.finished);
  EXPECT_GE(loop_.TurnUntilIdle(), 1000 / 64 - 1);
  EXPECT_EQ(1000, Results());
  EXPECT_EQ(1, call_.finished);
  EXPECT_TRUE(call_.status.ok());
}

TEST_F(StreamHandlerTest, ChecksUnderWay_StopTheReadingUntilAnswered) {
  store_.holding = true;
  for (int i = 0; i < 4; ++i) loop_.Turn([&] { handler_.OnMessage(Frame(1000)); });
  EXPECT_TRUE(call_.reading);
  loop_.Turn([&] { handler_.OnMessage(Frame(1000)); });
  EXPECT_FALSE(call_.reading);
  loop_.TurnUntilIdle();
  loop_.Turn([&] { store_.Release(); });
  EXPECT_TRUE(call_.reading);
  EXPECT_EQ(5000, Results());
}

TEST_F(StreamHandlerTest, CallerThatDoesNotRead_IsNotReadUntilItDoes) {
  call_.caller_reads = false;
  for (int i = 0; i < 5; ++i) {
    loop_.Turn([&] { handler_.OnMessage(Frame(1000)); });
    loop_.TurnUntilIdle();
  }
  EXPECT_FALSE(call_.reading);
  EXPECT_EQ(5000, Results());
  call_.ReadAll(handler_);
  EXPECT_TRUE(call_.reading);
}

TEST_F(StreamHandlerTest, Drain_AnswersWhatWasTakenIn_NoMore) {
  store_.holding = true;
  loop_.Turn([&] {
    handler_.OnMessage(Frame(100));
    handler_.OnDrain();
    handler_.OnMessage(Frame(100, 100));
  });
  loop_.TurnUntilIdle();
  EXPECT_EQ(0, call_.finished);
  loop_.Turn([&] { store_.Release(); });
  EXPECT_EQ(100, Results());
  EXPECT_EQ(rpc::StatusCode::kUnavailable, call_.status.code);
  EXPECT_THAT(call_.status.message, HasSubstr("shutting down"));
}

TEST_F(StreamHandlerTest, Cancelled_StartsNoMore_WaitsForTheStore_AndServesTheNext) {
  store_.holding = true;
  loop_.Turn([&] {
    handler_.OnMessage(Frame(500));
    handler_.OnCancel();
  });
  loop_.TurnUntilIdle();
  EXPECT_EQ(CheckStreamHandler::kChecksPerTurn, store_.submitted);
  EXPECT_EQ(0, call_.finished);
  loop_.Turn([&] { store_.Release(); });
  EXPECT_EQ(1, call_.finished);
  EXPECT_EQ(0, Results());

  store_.holding = false;
  handler_.OnStart(call_);
  loop_.Turn([&] { handler_.OnMessage(Frame(3)); });
  handler_.OnHalfClose();
  EXPECT_EQ(3, Results());
  EXPECT_EQ(2, call_.finished);
  EXPECT_TRUE(call_.status.ok());
}

TEST_F(StreamHandlerTest, InvalidFrame_EndsWithItsErrorOnceTheOthersAreAnswered) {
  store_.holding = true;
  loop_.Turn([&] {
    handler_.OnMessage(Frame(5));
    handler_.OnMessage("");
    handler_.OnMessage(Frame(5));
  });
  EXPECT_EQ(0, call_.finished);
  store_.Release();
  EXPECT_EQ(1, call_.finished);
  EXPECT_EQ(rpc::StatusCode::kInvalidArgument, call_.status.code);
  EXPECT_EQ(5, Results());
}

// The methods of a service, by the last part of their path.
std::unique_ptr<rpc::StreamHandler> StreamOf(const rpc::Methods& methods, net::Loop& loop,
                                             const std::string& name) {
  for (const rpc::Method& method : methods) {
    if (method.path.ends_with("/" + name)) return method.stream(loop);
  }
  return nullptr;
}

TEST(HealthWatchHandler, DrainComesBeforeTheLoopHasRunOn_NotServingIsToldFirst) {
  ManualLoop loop;
  HealthService health;
  rpc::Methods methods;
  health.AddTo(methods);
  const auto handler = StreamOf(methods, loop, "Watch");
  FakeCall call;
  handler->Attach(call);
  handler->OnStart(call);
  handler->OnMessage("");
  handler->OnHalfClose();
  health.StopServing();
  handler->OnDrain();
  EXPECT_THAT(call.sent, testing::ElementsAre("\x08\x01", "\x08\x02"));
  EXPECT_EQ(rpc::StatusCode::kUnavailable, call.status.code);
  loop.TurnUntilIdle();
  EXPECT_EQ(2U, call.sent.size());
  EXPECT_EQ(1, call.finished);
}

TEST(HealthWatchHandler, NoRequestOrTwo_IsInvalid) {
  ManualLoop loop;
  HealthService health;
  rpc::Methods methods;
  health.AddTo(methods);
  const auto handler = StreamOf(methods, loop, "Watch");
  for (const int requests : {0, 2}) {
    FakeCall call;
    handler->Attach(call);
    handler->OnStart(call);
    for (int i = 0; i < requests; ++i) handler->OnMessage("");
    if (requests == 0) handler->OnHalfClose();
    EXPECT_EQ(1, call.finished) << requests;
    EXPECT_EQ(rpc::StatusCode::kInvalidArgument, call.status.code) << requests;
  }
}

TEST(ReflectionHandler, CallerThatDoesNotRead_IsNotReadUntilItDoes) {
  ManualLoop loop;
  rpc::Methods methods;
  AddReflection(methods);
  const auto handler = StreamOf(methods, loop, "ServerReflectionInfo");
  FakeCall call;
  call.caller_reads = false;
  handler->Attach(call);
  handler->OnStart(call);
  const std::string list_services("\x3a\x00", 2);
  for (int i = 0; i < 100'000 && call.reading; ++i) handler->OnMessage(list_services);
  EXPECT_FALSE(call.reading);
  EXPECT_LT(call.unsent_bytes(), 2 * ReflectionHandler::kMaxUnsentBytes);
  call.ReadAll(*handler);
  EXPECT_TRUE(call.reading);
  handler->OnHalfClose();
  EXPECT_EQ(1, call.finished);
}

}  // namespace
}  // namespace sluice::test
