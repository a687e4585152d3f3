// Calls with any number of messages in both directions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

class StreamTest : public testing::Test {
 protected:
  void Start(const Headers& changes = {}) {
    client_.SendHeaders(1, RequestHeaders("/t/Chat", changes));
  }
  // Returns when everything sent before has reached the server.
  void Sync() {
    client_.SendPing();
    EXPECT_TRUE(client_.AwaitPong());
  }

  Served served_;
  RawClient client_{served_.address()};
};

TEST_F(StreamTest, Messages_EchoedOneByOne_StreamEndsAfterHalfClose) {
  Start();
  std::string expected;
  for (const char* word : {"one", "two", "three"}) {
    client_.SendData(1, Framed(word));
    expected += Framed(word);
    EXPECT_EQ(client_.AwaitData(1, expected.size()).data, expected);
  }
  client_.SendData(1, "", true);
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kOk);
  EXPECT_EQ(reply.data, expected);
  EXPECT_EQ(served_.seen().half_closed, 1);
}

TEST_F(StreamTest, Messages_ManyInOneFrameAndOneInMany_AreEchoed) {
  Start();
  const std::string body = Framed("a") + Framed("") + Framed(std::string(300, 'b'));
  client_.SendData(1, body.substr(0, 20));
  client_.SendData(1, body.substr(20), true);
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.data, body);
  EXPECT_EQ(reply.status(), kOk);
}

TEST_F(StreamTest, Messages_ThatGrowHugelyWhenDecompressed_LetOtherTasksRunInBetween) {
  constexpr int kMessages = 20;
  Start({{"grpc-encoding", "gzip"}});
  Sync();
  net::EpollLoop& loop = served_.threads().loop(0);
  std::atomic<int> most_per_iteration = 0;
  int before = 0;
  std::function<void()> note = [&] {
    const int now = served_.seen().messages;
    most_per_iteration = std::max(most_per_iteration.load(), now - std::exchange(before, now));
    if (now < kMessages) loop.Post(note);
  };
  loop.Post(note);
  std::string body;
  for (int i = 0; i < kMessages; ++i) body += Framed(Gzip(std::string(200'000, 'z')), true);
  client_.SendData(1, body, true);
  EXPECT_EQ(client_.Await(1).data.size(), kMessages * 200'005U);
  EXPECT_EQ(served_.seen().half_closed, 1);
  served_.threads().RunOn(0, [](net::EpollLoop&) {});  // waits for the last `note`
  EXPECT_LE(most_per_iteration, 2);
}

TEST_F(StreamTest, Request_WithoutMessages_EndsWithOk) {
  client_.SendHeaders(1, RequestHeaders("/t/Chat"), true);
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kOk);
  EXPECT_EQ(reply.data, "");
}

TEST_F(StreamTest, Finish_BeforeTheHalfClose_SendsTrailersThenResetWithoutError) {
  Start();
  client_.SendData(1, Framed("hello") + Framed("end") + Framed("unread"));
  RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kAborted);
  EXPECT_EQ(reply.message(), "as asked");
  EXPECT_EQ(reply.data, Framed("hello"));
  Sync();
  EXPECT_EQ(client_.reply(1).reset, 0);
  EXPECT_EQ(served_.seen().messages, 2);
}

TEST_F(StreamTest, Finish_InOnStart_SendsTheStatus) {
  Start({{"x-refuse", "1"}});
  EXPECT_EQ(client_.Await(1).status(), kPermissionDenied);
}

TEST_F(StreamTest, Message_CutShortByTheEnd_FailsWithInternal) {
  Start();
  client_.SendData(1, Framed("hello").substr(0, 8), true);
  EXPECT_EQ(client_.Await(1).status(), kInternal);
  EXPECT_EQ(served_.seen().canceled, 1);
}

TEST_F(StreamTest, Reading_Paused_WindowStopsTheCaller) {
  Start({{"x-deaf", "1"}});
  const std::string message = Framed(std::string(1'000, 'm'));
  for (int i = 0; i < 65; ++i) client_.SendData(1, message);
  Sync();
  EXPECT_EQ(served_.seen().messages, 0);
  EXPECT_EQ(client_.window_given(1), 0U) << "the window grows, so the caller may send more";
  served_.Listen(true);
  EXPECT_EQ(client_.AwaitData(1, 65 * message.size()).data.size(), 65 * message.size());
  Sync();
  EXPECT_GT(client_.window_given(1), 30'000U);
  client_.SendData(1, "", true);
  EXPECT_EQ(client_.Await(1).status(), kOk);
}

TEST_F(StreamTest, Reading_PausedInOnMessage_NoMoreIsDelivered) {
  Start();
  client_.SendData(1, Framed("pause") + Framed("later"), true);
  EXPECT_EQ(client_.AwaitData(1, 10).data, Framed("pause"));
  Sync();
  EXPECT_EQ(served_.seen().messages, 1);
  served_.Listen(true);
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.data, Framed("pause") + Framed("later"));
  EXPECT_EQ(reply.status(), kOk);
}

TEST_F(StreamTest, Message_LargerThanTheWindow_RestIsUnsentUntilTheWindowGrows) {
  client_.SetReturnsWindow(false);
  Start({{"x-send", "100000"}});
  client_.AwaitData(1, 65'535);
  EXPECT_EQ(served_.unsent(), 100'005 - 65'535U);
  EXPECT_EQ(served_.seen().writable, 0);
  client_.SendWindow(0, 100'000);
  client_.SendWindow(1, 100'000);
  EXPECT_EQ(client_.AwaitData(1, 100'005).data, Framed(std::string(100'000, 'x')));
  Sync();
  EXPECT_EQ(served_.seen().writable, 1);
  EXPECT_EQ(served_.unsent(), 0U);
}

TEST_F(StreamTest, Streams_OneIsPaused_OthersAreServed) {
  Start({{"x-deaf", "1"}});
  client_.SendData(1, std::string(65'000, '\0'));
  for (std::uint32_t stream = 3; stream < 101; stream += 2) {
    client_.SendCall(stream, "/t/Echo", std::string(60'000, 'e'));
    EXPECT_EQ(client_.Await(stream).status(), kOk) << stream;
  }
}

TEST_F(StreamTest, Deadline_Passed_CallIsCanceledAndAnswered) {
  Start({{"grpc-timeout", "30m"}});
  client_.SendData(1, Framed("hello"));
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kDeadlineExceeded);
  EXPECT_EQ(reply.data, Framed("hello"));
  EXPECT_EQ(served_.seen().canceled, 1);
}

TEST_F(StreamTest, Deadline_PassedWhileBytesAreUnsent_CallIsAnsweredAtOnce) {
  client_.SetReturnsWindow(false);
  Start({{"grpc-timeout", "30m"}, {"x-send", "100000"}});
  EXPECT_EQ(client_.Await(1).status(), kDeadlineExceeded);
}

TEST_F(StreamTest, Reset_WhileOpen_CallIsCanceledAndHandlerIsReused) {
  Start();
  client_.SendData(1, Framed("hello"));
  client_.AwaitData(1, 10);
  client_.SendReset(1);
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().canceled == 1; }));
  client_.SendHeaders(3, RequestHeaders("/t/Chat"));
  client_.SendData(3, Framed("again"), true);
  EXPECT_EQ(client_.Await(3).data, Framed("again"));
  EXPECT_EQ(served_.seen().handlers, 1);
}

// Messages of 120 KB need reserved memory of the connection: 8 fit at once, the others must wait.
TEST_F(StreamTest, Messages_LargeAndInterleaved_AllArrive) {
  constexpr std::uint32_t kStreams = 60;
  constexpr std::size_t kSize = 120'000;
  const std::string body = Framed(std::string(kSize, 'l'));
  std::vector<std::size_t> sent(kStreams);
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    client_.SendHeaders(2 * i + 1, RequestHeaders("/t/Echo"));
  }
  std::size_t sent_in_all = 0;
  for (std::size_t left = kStreams; left > 0;) {
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      const std::uint32_t stream = 2 * i + 1;
      const std::size_t window = 65'535 + client_.window_given(stream) - sent[i];
      const std::size_t connection_window = 65'535 + client_.window_given(0) - sent_in_all;
      const std::size_t size =
          std::min({window, connection_window, body.size() - sent[i], std::size_t{16'000}});
      if (size == 0) continue;
      const bool last = sent[i] + size == body.size();
      client_.SendData(stream, body.substr(sent[i], size), last);
      sent[i] += size;
      sent_in_all += size;
      if (last) --left;
    }
    Sync();
    ASSERT_TRUE(client_.goaways().empty());
    ASSERT_FALSE(HasFailure());
  }
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    EXPECT_EQ(client_.Await(2 * i + 1).data.size(), body.size()) << i;
  }
}

}  // namespace
}  // namespace sluice::test
