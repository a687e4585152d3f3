// Limits and timeouts for peers that are slow, silent or hostile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <functional>
#include <vector>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using ::testing::HasSubstr;
constexpr std::chrono::milliseconds kShort(50);
constexpr std::uint32_t kRefusedStream = 7, kCancel = 8, kEnhanceYourCalm = 11;
constexpr int kFewResets = 900;  // a connection may make 1,000 at once

TEST(LimitsTest, Settings_AnnounceTheLimits) {
  Served served;
  RawClient client(served.address());
  const auto settings = client.AwaitSettings();
  EXPECT_EQ(settings.at(3), 1'024U);   // MAX_CONCURRENT_STREAMS
  EXPECT_EQ(settings.at(6), 16'384U);  // MAX_HEADER_LIST_SIZE
}

TEST(LimitsTest, Calls_BeyondTheServersLimit_AreRefused) {
  Served served({.max_calls = 3});
  RawClient client(served.address());
  for (std::uint32_t stream = 1; stream <= 7; stream += 2) {
    client.SendCall(stream, "/t/Echo", "a", {{"x-hold", "1"}});
  }
  EXPECT_EQ(client.Await(7).reset, kRefusedStream);
  served.ReleaseHeld();
  for (std::uint32_t stream = 1; stream <= 5; stream += 2) {
    EXPECT_EQ(client.Await(stream).status(), kOk);
  }
  client.SendCall(9, "/t/Echo", "a");
  EXPECT_EQ(client.Await(9).status(), kOk);
  EXPECT_THAT(served.metrics(), HasSubstr("sluice_grpc_refused_total{reason=\"calls\"} 1"));
}

TEST(LimitsTest, Calls_ResetButNotFinished_CountAsOpen) {
  Served served({.max_calls = 3});
  RawClient client(served.address());
  for (std::uint32_t stream = 1; stream <= 5; stream += 2) {
    client.SendCall(stream, "/t/Echo", "a", {{"x-hold", "1"}});
    client.SendReset(stream);
  }
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served.seen().canceled == 3; }));
  client.SendCall(7, "/t/Echo", "a");
  EXPECT_EQ(client.Await(7).reset, kRefusedStream);
  served.ReleaseHeld();
  client.SendCall(9, "/t/Echo", "a");
  EXPECT_EQ(client.Await(9).status(), kOk);
}

TEST(LimitsTest, Connections_BeyondTheLimit_ReplaceAnIdleOne) {
  Served served({.max_connections = 1});
  RawClient first(served.address());
  first.SendCall(1, "/t/Echo", "a");
  EXPECT_EQ(first.Await(1).status(), kOk);
  RawClient second(served.address());
  second.SendCall(1, "/t/Echo", "a");
  EXPECT_EQ(second.Await(1).status(), kOk);
  EXPECT_TRUE(first.AwaitEnd());
  EXPECT_THAT(served.metrics(), HasSubstr("reason=\"replaced\"} 1"));
}

TEST(LimitsTest, Connections_BeyondTheLimitWhileAllHaveCalls_AreRefusedAndSoonClosed) {
  Served served({.max_connections = 1}, {.no_place = kShort});
  RawClient first(served.address());
  first.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served.seen().served == 1; }));
  RawClient second(served.address());
  second.SendCall(1, "/t/Echo", "a");
  EXPECT_EQ(second.Await(1).reset, kRefusedStream);
  EXPECT_TRUE(second.AwaitEnd());
  RawClient silent(served.address());
  EXPECT_TRUE(silent.AwaitEnd());
  EXPECT_THAT(served.metrics(), HasSubstr("reason=\"connections\"} 2"));
  served.ReleaseHeld();
  EXPECT_EQ(first.Await(1).status(), kOk);
}

TEST(LimitsTest, Pings_BetweenCalls_AreNoFlood) {
  Served served;
  RawClient client(served.address());
  for (std::uint32_t i = 0; i < 100; ++i) {
    client.SendCall(2 * i + 1, "/t/Echo", "a");
    client.SendPing();
    EXPECT_EQ(client.Await(2 * i + 1).status(), kOk);
  }
  EXPECT_TRUE(client.goaways().empty());
}

// Requests are small, but their answers fill the kernel's buffers.
TEST(LimitsTest, Answers_NotRead_NoFurtherRequestsAreRead) {
  constexpr int kCalls = 1'000;
  Served served;
  RawClient client(served.address());
  client.Send({.type = Http2Frame::kSettings, .payload = BigEndian(4, 2) + BigEndian(1U << 30, 4)});
  client.SendWindow(0, 1U << 30);
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    client.SendHeaders(2 * i + 1, RequestHeaders("/t/Chat", {{"x-send", "60000"}}), /*end=*/true);
  }
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served.seen().served > 10; }));
  for (int i = 0; i < 100; ++i) served.threads().RunOn(0, [](net::EpollLoop&) {});
  EXPECT_LT(served.seen().served, kCalls / 2);
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_EQ(client.Await(2 * i + 1).data.size(), 60'005U) << i;
  }
  EXPECT_EQ(served.seen().served, kCalls);
}

TEST(LimitsTest, Flood_ContinuesAfterGoaway_IsNotRead) {
  constexpr std::size_t kFlood = 64 * 1024 * 1024;
  Served served({}, {.linger = std::chrono::seconds(3)});
  RawClient client(served.address());
  std::string pings;
  while (pings.size() < 64 * 1024) {
    pings += Http2Frame{.type = Http2Frame::kPing, .payload = "12345678"}.Bytes();
  }
  std::size_t sent = 0;
  while (sent < kFlood) {
    const ssize_t more = send(client.fd(), pings.data(), pings.size(), MSG_NOSIGNAL);
    if (more <= 0) break;
    sent += static_cast<std::size_t>(more);
  }
  EXPECT_LT(sent, kFlood / 2);
}

TEST(LimitsTest, Pings_Flood_EndsWithGoawayTooManyPings) {
  Served served;
  RawClient client(served.address());
  for (int i = 0; i < 50; ++i) client.SendPing();
  const auto goaway = client.AwaitGoaway();
  ASSERT_TRUE(goaway);
  EXPECT_EQ(goaway->error, kEnhanceYourCalm);
  EXPECT_EQ(goaway->text, "too_many_pings");
  EXPECT_THAT(served.metrics(), HasSubstr("sluice_grpc_refused_total{reason=\"flood\"} 1"));
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, Peer_SendsGoawayAndHasNoCalls_ConnectionIsClosed) {
  for (const bool with_ping : {false, true}) {
    Served served;
    RawClient client(served.address());
    client.SendPing();
    ASSERT_TRUE(client.AwaitPong());
    std::string last =
        Http2Frame{.type = Http2Frame::kGoaway, .payload = std::string(8, '\0')}.Bytes();
    if (with_ping) last += Http2Frame{.type = Http2Frame::kPing, .payload = "12345678"}.Bytes();
    client.SendBytes(last);
    EXPECT_TRUE(client.AwaitEnd()) << with_ping;
  }
}

TEST(LimitsTest, Settings_Flood_EndsWithGoaway) {
  Served served;
  RawClient client(served.address());
  for (int i = 0; i < 50; ++i) client.Send({.type = Http2Frame::kSettings});
  ASSERT_TRUE(client.AwaitGoaway());
  EXPECT_EQ(client.goaways().back().error, kEnhanceYourCalm);
}

TEST(LimitsTest, Resets_OfYoungCalls_ABurstIsAllowed_MoreEndWithGoaway) {
  Served served;
  RawClient client(served.address());
  std::uint32_t stream = 1;
  const auto reset = [&](int calls) {
    for (int i = 0; i < calls; ++i, stream += 2) {
      client.SendHeaders(stream, RequestHeaders("/t/Echo"));
      client.SendReset(stream);
    }
  };
  reset(kFewResets);
  client.SendCall(stream, "/t/Echo", "a");
  EXPECT_EQ(client.Await(stream).status(), kOk);
  EXPECT_TRUE(client.goaways().empty());
  stream += 2;
  reset(3'000);
  const auto goaway = client.AwaitGoaway();
  ASSERT_TRUE(goaway);
  EXPECT_EQ(goaway->error, kEnhanceYourCalm);
  EXPECT_THAT(served.metrics(), HasSubstr("sluice_grpc_refused_total{reason=\"rapid_reset\"} 1"));
  EXPECT_THAT(served.metrics(), HasSubstr("sluice_grpc_refused_total{reason=\"flood\"} 0"));
}

// Each call breaks the protocol in a way that ends only its stream, not the connection.
TEST(LimitsTest, Resets_ForcedByThePeer_ABurstIsAllowed_MoreEndWithGoaway) {
  struct Way {
    const char* name;
    std::function<void(RawClient&, std::uint32_t)> send;
  };
  const std::vector<Way> ways = {
      {"window",
       [](RawClient& client, std::uint32_t stream) {
         client.SendCall(stream, "/t/Echo", "a", {{"x-hold", "1"}});
         client.SendWindow(stream, 0x7FFFFFFF);
       }},
      {"length",
       [](RawClient& client, std::uint32_t stream) {
         client.SendCall(stream, "/t/Echo", "a", {{"content-length", "1000"}});
       }},
      {"fields", [](RawClient& client, std::uint32_t stream) {
         client.SendHeaders(stream, RequestHeaders("/t/Echo", {{"Upper", "1"}}));
       }}};
  for (const Way& way : ways) {
    Served served;
    RawClient client(served.address());
    std::uint32_t stream = 1;
    for (int i = 0; i < kFewResets; ++i, stream += 2) way.send(client, stream);
    client.SendCall(stream, "/t/Echo", "a");
    EXPECT_EQ(client.Await(stream).status(), kOk) << way.name;
    EXPECT_TRUE(client.goaways().empty()) << way.name;
    for (int i = 0; i < 3'000; ++i) way.send(client, stream += 2);
    const auto goaway = client.AwaitGoaway();
    ASSERT_TRUE(goaway) << way.name;
    EXPECT_EQ(goaway->error, kEnhanceYourCalm) << way.name;
    EXPECT_EQ(goaway->text, "too_many_resets") << way.name;
    EXPECT_THAT(served.metrics(), HasSubstr("sluice_grpc_refused_total{reason=\"rapid_reset\"} 1"));
    served.ReleaseHeld();
  }
}

TEST(LimitsTest, Continuations_Flood_EndsTheConnection) {
  Served served;
  RawClient client(served.address());
  client.SendBytes(Http2Frame{.type = Http2Frame::kHeaders, .stream = 1}.Bytes());
  for (int i = 0; i < 100; ++i) {
    client.Send({.type = 9, .stream = 1, .payload = HeaderBlock({{"x", "y"}})});
  }
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, HeaderBlock_GrowsWhenDecompressed_EndsWithGoaway) {
  Served served;
  RawClient client(served.address());
  // A field with a value of 3,000 bytes. Each byte 0xbe after it repeats the field.
  const std::string field = "\x40\x01x\x7f\xb9\x16" + std::string(3'000, 'y');
  client.Send(
      {.type = Http2Frame::kHeaders, .stream = 1, .payload = field + std::string(100, '\xbe')});
  const auto goaway = client.AwaitGoaway();
  ASSERT_TRUE(goaway);
  EXPECT_EQ(goaway->error, kEnhanceYourCalm);
  EXPECT_EQ(goaway->text, "headers_too_large");
}

TEST(LimitsTest, Preface_NotHttp2_ConnectionIsClosed) {
  Served served;
  RawClient client(served.address(), false);
  client.SendBytes("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, Preface_Missing_ConnectionIsClosedInTime) {
  Served served({}, {.preface = kShort});
  RawClient client(served.address(), false);
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, Request_NotCompleteInTime_IsEnded) {
  Served served({}, {.request = kShort});
  RawClient client(served.address());
  client.SendHeaders(1, RequestHeaders("/t/Echo"));
  client.SendData(1, Framed("hello").substr(0, 7));
  client.SendHeaders(3, RequestHeaders("/t/Chat"));
  client.SendData(3, Framed("hello").substr(0, 7));
  EXPECT_EQ(client.Await(1).status(), kDeadlineExceeded);
  EXPECT_EQ(client.Await(3).status(), kDeadlineExceeded);
  EXPECT_EQ(served.seen().served, 1);
  EXPECT_EQ(served.seen().handlers, 1)
      << "only the stream has a handler: a unary call gets one when its request is complete";
}

TEST(LimitsTest, Stream_SilentBetweenMessages_HasNoTimeLimit) {
  Served served({}, {.request = kShort});
  RawClient client(served.address());
  client.SendHeaders(1, RequestHeaders("/t/Chat"));
  client.SendData(1, Framed("a"));
  client.SendHeaders(3, RequestHeaders("/t/Echo"));
  EXPECT_EQ(client.Await(3).status(), kDeadlineExceeded);  // after kShort
  client.SendData(1, Framed("b"), true);
  EXPECT_EQ(client.Await(1).status(), kOk);
}

TEST(LimitsTest, HeaderBlock_NotCompleteInTime_ConnectionEnds) {
  Served served({}, {.request = kShort});
  RawClient client(served.address());
  client.Send({.type = Http2Frame::kHeaders, .stream = 1, .payload = HeaderBlock({{"x", "y"}})});
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, Peer_Silent_GetsPingsAndIsKeptIfItAnswers) {
  Served served({}, {.preface = kShort, .keepalive = kShort, .ping = kShort});
  RawClient client(served.address());
  client.SendHeaders(1, RequestHeaders("/t/Chat", {{"grpc-timeout", "500m"}}));
  EXPECT_EQ(client.Await(1).status(), kDeadlineExceeded);  // after some ten PINGs
  client.SetAnswersPings(false);
  EXPECT_TRUE(client.AwaitEnd());
}

TEST(LimitsTest, Peer_ThatDoesNotRead_IsClosed) {
  Served served({}, {.stall = kShort});
  RawClient client(served.address());
  client.SendWindow(0, 1 << 30);
  client.Send({.type = Http2Frame::kSettings, .payload = BigEndian(4, 2) + BigEndian(1 << 30, 4)});
  client.SendHeaders(1, RequestHeaders("/t/Chat", {{"x-send", "50000000"}}));
  EXPECT_TRUE(WaitUntil(kSoon, [&] { return served.seen().canceled == 1; }));
}

TEST(LimitsTest, Answer_WindowFull_StreamIsResetInTime) {
  Served served({}, {.preface = kShort, .stall = kShort});
  RawClient client(served.address());
  client.SetReturnsWindow(false);
  client.SendCall(1, "/t/Echo", std::string(60'000, 'a'));
  client.SendCall(3, "/t/Echo", std::string(60'000, 'b'));  // exceeds the connection's window
  EXPECT_EQ(client.Await(1).status(), kOk);
  EXPECT_EQ(client.Await(3).reset, kCancel);
}

TEST(LimitsTest, IncompleteMessages_BeyondTheMemoryLimit_AreResourceExhausted) {
  Served served;
  RawClient client(served.address());
  // Each call stays within its window of 65,535 bytes. Together, the calls exceed the connection's
  // memory for messages.
  const std::string part = Framed(std::string(1'000'000, 'm')).substr(0, 65'000);
  std::uint32_t stream = 1;
  for (std::size_t sent = 0; sent < 17 * 1024 * 1024; sent += part.size(), stream += 2) {
    client.SendHeaders(stream, RequestHeaders("/t/Echo"));
    client.SendData(stream, part);
  }
  EXPECT_EQ(client.Await(stream - 2).status(), kResourceExhausted);
  EXPECT_FALSE(client.reply(1).ended);
}

}  // namespace
}  // namespace sluice::test
