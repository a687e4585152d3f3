// Stop: callers are notified, calls end, connections close, all within the allowed time.
#include <gtest/gtest.h>

#include <future>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

constexpr std::chrono::milliseconds kNotice(300);

class DrainTest : public testing::Test {
 protected:
  // How long Stop took.
  std::future<std::chrono::milliseconds> Stop(Duration drain) {
    return std::async(std::launch::async, [this, drain] {
      const SteadyTime began = SteadyNow();
      served_.server().Stop(drain);
      return std::chrono::duration_cast<std::chrono::milliseconds>(SteadyNow() - began);
    });
  }
  void AwaitServed(int calls) {
    ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().served == calls; }));
  }

  Served served_{{}, {.notice = kNotice, .linger = kNotice}};
};

TEST_F(DrainTest, Connection_Idle_GetsGoawayTwiceThenEnds) {
  RawClient client(served_.address());
  client.AwaitSettings();
  auto stopped = Stop(kSoon);
  const auto goaway = client.AwaitGoaway();
  ASSERT_TRUE(goaway);
  EXPECT_EQ(client.goaways().front().last_stream, 0x7FFFFFFFU);
  EXPECT_EQ(goaway->last_stream, 0U);
  EXPECT_EQ(goaway->error, 0U);
  EXPECT_TRUE(client.AwaitEnd());
  shutdown(client.fd(), SHUT_RDWR);
  EXPECT_LT(stopped.get(), kNotice);
}

TEST_F(DrainTest, Call_Open_IsAnsweredBeforeTheEnd) {
  RawClient client(served_.address());
  client.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
  AwaitServed(1);
  auto stopped = Stop(kSoon);
  ASSERT_TRUE(client.AwaitGoaway());
  EXPECT_EQ(client.goaways().back().last_stream, 1U);
  served_.ReleaseHeld();
  EXPECT_EQ(client.Await(1).data, Framed("a"));
  EXPECT_TRUE(client.AwaitEnd());
  shutdown(client.fd(), SHUT_RDWR);
  EXPECT_LT(stopped.get(), kSoon);
}

TEST_F(DrainTest, Call_SentBeforeTheNoticeArrived_IsStillServed) {
  RawClient client(served_.address());
  client.AwaitSettings();
  client.SetAnswersPings(false);  // as if the notice had not arrived yet
  auto stopped = Stop(kSoon);
  ASSERT_TRUE(WaitUntil(kSoon, [&] {
    RawClient late(served_.address());
    return late.AwaitEnd();
  }));
  client.SendCall(1, "/t/Echo", "a");
  EXPECT_EQ(client.Await(1).data, Framed("a"));
  ASSERT_TRUE(client.AwaitGoaway());
  EXPECT_EQ(client.goaways().back().last_stream, 1U);
  EXPECT_TRUE(client.AwaitEnd());
  shutdown(client.fd(), SHUT_RDWR);
  EXPECT_LT(stopped.get(), kSoon);
}

// Timeouts are checked while the notice's PING is unanswered. They must not end the connection
// because of this PING.
TEST(DrainTimesTest, Notice_TimeoutsAreCheckedMeanwhile_IsNotCutShort) {
  constexpr std::chrono::milliseconds kOften(20);
  Served served({}, {.preface = kOften, .keepalive = kOften, .ping = kSoon, .notice = kNotice});
  RawClient client(served.address());
  client.AwaitSettings();
  client.SetAnswersPings(false);
  auto stopped = std::async(std::launch::async, [&] { served.server().Stop(kSoon); });
  EXPECT_TRUE(client.AwaitGoaway());
  shutdown(client.fd(), SHUT_RDWR);
  stopped.get();
}

TEST_F(DrainTest, Stream_Open_EndsWithUnavailable) {
  RawClient client(served_.address());
  client.SendHeaders(1, RequestHeaders("/t/Chat"));
  client.SendData(1, Framed("a"));
  client.AwaitData(1, 6);
  auto stopped = Stop(kSoon);
  EXPECT_EQ(client.Await(1).status(), kUnavailable);
  EXPECT_EQ(served_.seen().drained, 1);
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(DrainTest, Call_NeverFinishes_StopReturnsInTime) {
  RawClient client(served_.address());
  client.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
  client.SendHeaders(3, RequestHeaders("/t/Chat", {{"x-stubborn", "1"}}));
  AwaitServed(2);
  const auto took = Stop(std::chrono::milliseconds(200)).get();
  EXPECT_GE(took.count(), 200);
  EXPECT_LT(took.count(), 1'000);
  EXPECT_EQ(served_.seen().canceled, 2);
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(DrainTest, Stop_WithoutDrain_EndsAtOnce) {
  RawClient client(served_.address());
  client.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
  AwaitServed(1);
  EXPECT_LT(Stop(Duration(0)).get().count(), 500);
  EXPECT_TRUE(client.AwaitEnd());
}

TEST_F(DrainTest, Peer_Silent_IsClosedAfterTheNotice) {
  RawClient client(served_.address());
  client.AwaitSettings();
  const auto took = Stop(kSoon).get();  // the client reads nothing and answers nothing
  EXPECT_LT(took, kSoon);
  EXPECT_GE(took, kNotice);
}

}  // namespace
}  // namespace sluice::test
