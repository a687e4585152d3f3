// Valid and invalid unary calls of gRPC over HTTP/2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/rpc/http2/served.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using ::testing::HasSubstr;

class UnaryTest : public testing::Test {
 protected:
  RawReply Call(std::string_view body, const Headers& changes = {}) {
    client_.SendHeaders(next_, RequestHeaders("/t/Echo", changes));
    client_.SendData(next_, body, true);
    next_ += 2;
    return client_.Await(next_ - 2);
  }

  Served served_;
  RawClient client_{served_.address()};
  std::uint32_t next_ = 1;
};

TEST_F(UnaryTest, Call_Echo_GetsHeadersMessageAndTrailers) {
  const RawReply reply = Call(Framed("hello"));
  EXPECT_EQ(reply.headers.at(":status"), "200");
  EXPECT_EQ(reply.headers.at("content-type"), "application/grpc");
  EXPECT_EQ(reply.headers.at("grpc-accept-encoding"), "identity, deflate, gzip");
  EXPECT_EQ(reply.data, Framed("hello"));
  EXPECT_EQ(reply.data_frames, 1);
  EXPECT_EQ(reply.status(), kOk);
  EXPECT_TRUE(reply.ended);
  EXPECT_FALSE(reply.reset);
}

TEST_F(UnaryTest, Call_EmptyMessage_IsAnswered) {
  const RawReply reply = Call(Framed(""));
  EXPECT_EQ(reply.data, Framed(""));
  EXPECT_EQ(reply.status(), kOk);
}

TEST_F(UnaryTest, Call_StatusOfHandler_IsTrailersOnlyWithEscapedMessage) {
  const RawReply reply = Call(Framed("x"), {{"x-status", "9"}, {"x-message", "50% of \xC3\xA4"}});
  EXPECT_EQ(reply.status(), 9);
  EXPECT_EQ(reply.message(), "50%25 of %C3%A4");
  EXPECT_EQ(reply.headers.at(":status"), "200");
  EXPECT_TRUE(reply.trailers.empty());
  EXPECT_FALSE(reply.reset);
}

TEST_F(UnaryTest, Calls_ThousandsInSequence_UseOneHandler) {
  for (int i = 0; i < 2'000; ++i) ASSERT_EQ(Call(Framed("x")).status(), kOk);
  EXPECT_EQ(served_.seen().handlers, 1);
  EXPECT_EQ(served_.seen().served, 2'000);
}

TEST_F(UnaryTest, Message_SplitIntoSingleBytes_IsReceivedWhole) {
  client_.SendHeaders(1, RequestHeaders("/t/Echo"));
  for (const char c : Framed("hello")) client_.SendData(1, std::string(1, c));
  client_.SendData(1, "", true);
  EXPECT_EQ(client_.Await(1).data, Framed("hello"));
}

TEST_F(UnaryTest, Message_OfOneMebibyte_IsAnswered) {
  const std::string message(1024 * 1024, 'm');
  client_.SendHeaders(1, RequestHeaders("/t/Echo"));
  // The body is sent as flow control allows: the first window, then as many bytes as the server's
  // WINDOW_UPDATE frames allow.
  const std::string body = Framed(message);
  client_.SendData(1, body.substr(0, 65'535));
  for (std::size_t sent = 65'535; sent < body.size();) {
    ASSERT_TRUE(WaitUntil(kSoon, [&] {
      client_.SendPing();
      client_.AwaitPong();
      return client_.window_given(1) + 65'535 > sent;
    }));
    const std::size_t size = std::min(body.size(), 65'535 + client_.window_given(1)) - sent;
    client_.SendData(1, body.substr(sent, size), sent + size == body.size());
    sent += size;
  }
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kOk);
  EXPECT_EQ(reply.data, body);
}

TEST_F(UnaryTest, Message_TooLarge_IsResourceExhaustedThenResetWithoutError) {
  client_.SendHeaders(1, RequestHeaders("/t/Echo"));
  client_.SendData(1, std::string("\0\0\x10\0\x01", 5) + std::string(1000, 'm'));
  const RawReply reply = client_.Await(1);
  EXPECT_EQ(reply.status(), kResourceExhausted);
  EXPECT_EQ(reply.message(), "Received message larger than max (1048577 vs. 1048576)");
  EXPECT_TRUE(reply.trailers.empty());
  EXPECT_TRUE(WaitUntil(kSoon, [&] {
    client_.SendPing();
    client_.AwaitPong();
    return client_.reply(1).reset.has_value();
  }));
  EXPECT_EQ(client_.reply(1).reset, 0);
  client_.SendData(1, "rest", true);
  client_.SendCall(3, "/t/Echo", "next");
  EXPECT_EQ(client_.Await(3).status(), kOk);
}

struct Odd {
  const char* name;
  std::string body;
  Headers changes;
  int status;
  const char* message = "";
};

TEST_F(UnaryTest, Requests_UnusualOrInvalid_GetTheExpectedStatus) {
  const std::string big(70'000, 'g');
  const std::vector<Odd> table = {
      {"none", "", {}, kInternal, "the request has no message"},
      {"cut in prefix", std::string("\0\0", 2), {}, kInternal, "cut short"},
      {"cut short", Framed("hello").substr(0, 7), {}, kInternal, "cut short"},
      {"two", Framed("a") + Framed("b"), {}, kUnimplemented, "more than one"},
      {"one and a byte", Framed("a") + "x", {}, kUnimplemented, "more than one"},
      {"bad flag", "\2" + Framed("a").substr(1), {}, kInternal, "bad flag"},
      {"gzip", Framed(Gzip("abc"), true), {{"grpc-encoding", "gzip"}}, kOk},
      {"deflate", Framed(Deflate("abc"), true), {{"grpc-encoding", "deflate"}}, kOk},
      {"gzip of 70,000", Framed(Gzip(big), true), {{"grpc-encoding", "gzip"}}, kOk},
      {"flagged as not compressed", Framed("abc"), {{"grpc-encoding", "gzip"}}, kOk},
      {"identity", Framed("abc"), {{"grpc-encoding", "identity"}}, kOk},
      {"flag without encoding", Framed(Gzip("abc"), true), {}, kInternal, "without grpc-encoding"},
      {"corrupt", Framed("abc", true), {{"grpc-encoding", "gzip"}}, kInternal, "decompressed"},
      {"cut gzip", Framed(Gzip("abc").substr(0, 12), true), {{"grpc-encoding", "gzip"}}, kInternal},
      {"unknown encoding", Framed("abc"), {{"grpc-encoding", "snappy"}}, kUnimplemented, "snappy"},
      {"bomb",
       Framed(Gzip(std::string(2'000'000, 'b')), true),
       {{"grpc-encoding", "gzip"}},
       kResourceExhausted,
       "larger than max"},
      {"unknown path", Framed("a"), {{":path", "/t/Nothing"}}, kUnimplemented, "/t/Nothing"},
      {"no te", Framed("a"), {{"te", ""}}, kOk},
      {"suffix", Framed("a"), {{"content-type", "application/grpc+proto"}}, kOk},
      {"parameter", Framed("a"), {{"content-type", "application/grpc;x=y"}}, kOk},
      {"headers too large",
       Framed("a"),
       {{"x-large", std::string(16'500, 'h')}},
       kResourceExhausted,
       "metadata"},
      {"timeout malformed", Framed("a"), {{"grpc-timeout", "soon"}}, kOk},
      {"timeout of 9 digits", Framed("a"), {{"grpc-timeout", "123456789n"}}, kOk},
      {"timeout of 8 digits", Framed("a"), {{"grpc-timeout", "99999999H"}}, kOk},
      {"timeout passed", Framed("a"), {{"grpc-timeout", "1n"}}, kDeadlineExceeded},
      {"timeout of nothing", Framed("a"), {{"grpc-timeout", "0S"}}, kDeadlineExceeded},
  };
  for (const Odd& odd : table) {
    const RawReply reply = Call(odd.body, odd.changes);
    EXPECT_EQ(reply.status(), odd.status) << odd.name;
    EXPECT_THAT(reply.message(), HasSubstr(odd.message)) << odd.name;
    EXPECT_EQ(reply.headers.at(":status"), "200") << odd.name;
    EXPECT_TRUE(reply.headers.contains("grpc-accept-encoding")) << odd.name;
  }
  EXPECT_EQ(Call(Framed("still here")).status(), kOk);
}

TEST_F(UnaryTest, Requests_NotGrpc_GetHttpErrors) {
  for (const char* type : {"application/json", "application/grpc-web", "application/grpcx", ""}) {
    const RawReply reply = Call("{}", {{"content-type", type}});
    EXPECT_EQ(reply.headers.at(":status"), "415") << type;
    EXPECT_EQ(reply.status(), -1) << type;
  }
  EXPECT_EQ(Call("", {{":method", "GET"}}).headers.at(":status"), "405");
}

TEST_F(UnaryTest, Deadline_AlreadyPassed_CallIsNeverServed) {
  EXPECT_EQ(Call(Framed("a"), {{"grpc-timeout", "1n"}}).status(), kDeadlineExceeded);
  EXPECT_EQ(served_.seen().served, 0);
}

TEST_F(UnaryTest, Deadline_PassesWhileServed_CallIsCanceledAndAnswered) {
  const RawReply reply = Call(Framed("a"), {{"x-hold", "1"}, {"grpc-timeout", "20m"}});
  EXPECT_EQ(reply.status(), kDeadlineExceeded);
  EXPECT_EQ(served_.seen().canceled, 1);
  EXPECT_EQ(Call(Framed("b")).data, Framed("b"));
  EXPECT_EQ(served_.seen().handlers, 2) << "the handler that has not finished was used again";
  served_.ReleaseHeld();
  EXPECT_EQ(Call(Framed("c")).data, Framed("c"));
  EXPECT_EQ(served_.seen().handlers, 2);
}

TEST_F(UnaryTest, Reset_WhileServed_CallIsCanceledAndAnswerIsDropped) {
  client_.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().served == 1; }));
  client_.SendReset(1);
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().canceled == 1; }));
  served_.ReleaseHeld();
  client_.SendCall(3, "/t/Echo", "b");
  EXPECT_EQ(client_.Await(3).data, Framed("b"));
  EXPECT_TRUE(client_.reply(1).headers.empty());
}

// A caller gives up while the answer is in flight: it resets a stream that has already ended.
TEST_F(UnaryTest, Reset_CrossesTheAnswer_AnswerIsLost) {
  client_.SendCall(1, "/t/Echo", "a");
  client_.SendCall(3, "/t/Echo", "b");
  EXPECT_EQ(client_.Await(1).status(), kOk);
  EXPECT_EQ(client_.Await(3).status(), kOk);
  client_.SendReset(3);
  client_.SendPing();
  ASSERT_TRUE(client_.AwaitPong());
  EXPECT_EQ(served_.seen().lost, 1);
  EXPECT_EQ(served_.seen().canceled, 0);
  client_.SendReset(3);
  client_.SendPing();
  ASSERT_TRUE(client_.AwaitPong());
  EXPECT_EQ(served_.seen().lost, 1);
}

TEST_F(UnaryTest, Reset_BeforeTheWholeAnswerIsSent_AnswerIsLost) {
  client_.SetReturnsWindow(false);
  const std::string large(200'000, 'x');
  client_.SendHeaders(1, RequestHeaders("/t/Echo"));
  client_.SendData(1, Framed(large), true);
  client_.AwaitData(1, 1);
  client_.SendReset(1);
  client_.SendPing();
  ASSERT_TRUE(client_.AwaitPong());
  EXPECT_EQ(served_.seen().lost, 1);
}

// The kernel refuses the bytes of the answer, because the caller has reset the connection.
TEST_F(UnaryTest, Connection_ResetBeforeTheAnswerIsSent_AnswerIsLost) {
  auto caller = std::make_unique<RawClient>(served_.address());
  caller->SendCall(1, "/t/Echo", "a");
  EXPECT_EQ(caller->Await(1).status(), kOk);
  caller->SendCall(3, "/t/Echo", "b", {{"x-hold", "1"}});
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().served == 2; }));
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(caller->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  served_.ReleaseHeld([&] { caller.reset(); });
  ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().lost > 0; }));
  EXPECT_EQ(Call(Framed("c")).status(), kOk);
  EXPECT_EQ(served_.seen().lost, 1) << "the first answer was sent";
  EXPECT_EQ(served_.seen().canceled, 0);
}

TEST_F(UnaryTest, Connection_LostWhileServed_CallIsCanceled) {
  {
    RawClient other(served_.address());
    other.SendCall(1, "/t/Echo", "a", {{"x-hold", "1"}});
    ASSERT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().served == 1; }));
  }
  EXPECT_TRUE(WaitUntil(kSoon, [&] { return served_.seen().canceled == 1; }));
  served_.ReleaseHeld();
  EXPECT_EQ(Call(Framed("b")).status(), kOk);
}

TEST_F(UnaryTest, Messages_ThatGrowHugelyWhenDecompressed_AreAllAnswered) {
  constexpr std::uint32_t kCalls = 20;
  const std::string body = Framed(Gzip(std::string(500'000, 'z')), true);
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    client_.SendHeaders(2 * i + 1, RequestHeaders("/t/Echo", {{"grpc-encoding", "gzip"}}));
    client_.SendData(2 * i + 1, body, true);
  }
  for (std::uint32_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(client_.Await(2 * i + 1).data.size(), 500'005U);
  }
}

TEST_F(UnaryTest, Request_Malformed_IsResetAndConnectionServesOthers) {
  client_.SendHeaders(1, RequestHeaders("/t/Echo", {{"X-Upper", "1"}}), true);
  EXPECT_EQ(client_.Await(1).reset, 1);  // PROTOCOL_ERROR
  client_.SendCall(3, "/t/Echo", "a");
  EXPECT_EQ(client_.Await(3).status(), kOk);
}

TEST_F(UnaryTest, Trailers_InRequest_EndTheRequest) {
  client_.SendHeaders(1, RequestHeaders("/t/Echo"));
  client_.SendData(1, Framed("a"));
  client_.SendHeaders(1, {{"x-checksum", "1"}}, true);
  EXPECT_EQ(client_.Await(1).data, Framed("a"));
}

TEST_F(UnaryTest, Response_LargerThanTheWindow_RestWaitsForWindowUpdate) {
  client_.SetReturnsWindow(false);
  client_.Send({.type = Http2Frame::kSettings, .payload = BigEndian(4, 2) + BigEndian(10, 4)});
  client_.SendCall(1, "/t/Echo", "a message of more than ten bytes");
  EXPECT_EQ(client_.AwaitData(1, 10).data.size(), 10U);
  client_.SendWindow(1, 1000);
  EXPECT_EQ(client_.Await(1).data, Framed("a message of more than ten bytes"));
}

}  // namespace
}  // namespace sluice::test
