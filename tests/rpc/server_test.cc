// The guarantees of the gRPC server to handlers and callers.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "rpc/http2/server.h"
#include "tests/rpc/echo_methods.h"
#include "tests/rpc/generic_client.h"
#include "tests/rpc/raw_connection.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using grpc::StatusCode;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kSoon(10);

class ServerTest : public testing::Test {
 protected:
  ServerTest() { threads_.Start(); }
  ~ServerTest() override {
    server_.reset();
    threads_.Stop();
  }

  void SetUp() override { Start({}); }

  void Start(const rpc::http2::ServerOptions& options) {
    StartAt({.host = "127.0.0.1", .port = 0, .unix_path = ""}, options);
  }

  void StartAt(const Address& address, rpc::http2::ServerOptions options) {
    server_.reset();
    options.address = address;
    options.metadata = {"x-one", "x-two", "x-three"};
    auto server = rpc::http2::Server::Start(threads_, EchoMethods(seen_), options);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    channel_ = ConnectTo(server_->address().ToString());
  }

  Outcome Unary(const std::string& method, const std::string& request,
                const CallOptions& options = {}) {
    return CallUnary(channel_, "/test.Unary/" + method, request, options);
  }

  static bool Soon(const std::atomic<int>& number, int at_least) {
    return WaitUntil(kSoon, [&] { return number >= at_least; });
  }

  Seen seen_;
  net::IoThreads threads_{2};
  std::unique_ptr<rpc::http2::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

Outcome Ok(std::string response) {
  return {.code = StatusCode::OK, .message = "", .response = std::move(response)};
}

TEST_F(ServerTest, Unary_AnyBytes_AreReturned) {
  EXPECT_EQ(Unary("Echo", "hello"), Ok("hello"));
  EXPECT_EQ(Unary("Echo", ""), Ok(""));
  EXPECT_EQ(Unary("Later", std::string("\0\xff\n", 3)), Ok(std::string("\0\xff\n", 3)));
  EXPECT_EQ(seen_.wrong_thread, 0);
}

TEST_F(ServerTest, Unary_Compressed_IsInflated) {
  const std::string message(100'000, 'a');
  EXPECT_EQ(Unary("Echo", message, {.compression = GRPC_COMPRESS_GZIP}), Ok(message));
  EXPECT_EQ(Unary("Echo", message, {.compression = GRPC_COMPRESS_DEFLATE}), Ok(message));
}

TEST_F(ServerTest, Status_MessageWithUnusualBytes_ArrivesUnchanged) {
  for (const std::string message : {"", "plain", "100 %", "%41", "two\r\nlines", "a: b, c",
                                    "\u00fcml\u00e4ut \u2713 \U0001F600", "\x01\x7f", " spaces "}) {
    EXPECT_EQ(Unary("Fail", message),
              (Outcome{.code = StatusCode::FAILED_PRECONDITION, .message = message}));
  }
}

TEST_F(ServerTest, Method_Unknown_IsUnimplemented) {
  EXPECT_EQ(Unary("Nothing", "x").code, StatusCode::UNIMPLEMENTED);
  ClientStream stream(channel_, "/nobody/At");
  EXPECT_FALSE(stream.Read());
  EXPECT_EQ(stream.Finish().code, StatusCode::UNIMPLEMENTED);
}

TEST_F(ServerTest, Metadata_ByName_HasOneValueOrNone) {
  const CallOptions options{.metadata = {{"x-one", "1"}, {"x-two", "1"}, {"x-two", "2"}}};
  EXPECT_EQ(Unary("Metadata", "x-one", options), Ok("1"));
  EXPECT_EQ(Unary("Metadata", "x-two", options).code, StatusCode::NOT_FOUND);
  EXPECT_EQ(Unary("Metadata", "x-three", options).code, StatusCode::NOT_FOUND);
}

TEST_F(ServerTest, Peer_OverTcp_IsHostAndPort) {
  EXPECT_TRUE(Unary("Peer", "").response.starts_with("127.0.0.1:")) << Unary("Peer", "");
}

TEST_F(ServerTest, Peer_OverAUnixSocket_IsUnix) {
  const TempDir dir;
  const std::string path = dir.path() / "socket";
  StartAt({.host = "", .unix_path = path}, {});
  EXPECT_EQ(Unary("Peer", ""), Ok("unix"));
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ServerTest, Peer_OverIpv6_HasBrackets) {
  StartAt({.host = "::1", .port = 0, .unix_path = ""}, {});
  EXPECT_TRUE(Unary("Peer", "").response.starts_with("[::1]:")) << Unary("Peer", "");
}

TEST_F(ServerTest, Message_OverTheLimit_IsResourceExhausted) {
  Start({.max_message_bytes = 1000});
  EXPECT_EQ(Unary("Echo", std::string(1000, 'x')), Ok(std::string(1000, 'x')));
  EXPECT_EQ(Unary("Echo", std::string(1001, 'x')).code, StatusCode::RESOURCE_EXHAUSTED);
  const CallOptions gzip{.compression = GRPC_COMPRESS_GZIP};
  EXPECT_EQ(Unary("Echo", std::string(1000, 'x'), gzip), Ok(std::string(1000, 'x')));
  EXPECT_EQ(Unary("Echo", std::string(1001, 'x'), gzip).code, StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Unary("Echo", std::string(100'000, 'x'), gzip).code, StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Unary("Echo", "still served"), Ok("still served"));
}

TEST_F(ServerTest, Message_OfAMegabyte_IsReturned) {
  const std::string message(1024 * 1024, 'x');
  EXPECT_EQ(Unary("Echo", message), Ok(message));
  ClientStream stream(channel_, "/test.Stream/Echo");
  EXPECT_TRUE(stream.Write(message));
  EXPECT_EQ(stream.Read(), message);
}

TEST_F(ServerTest, Deadline_OfTheCaller_ReachesTheHandler) {
  EXPECT_EQ(Unary("TimeLeft", "", {.timeout = seconds(5)}), Ok("5"));
}

TEST_F(ServerTest, Deadline_Passes_HandlerIsCanceled) {
  const Outcome outcome = Unary("Hold", "", {.timeout = milliseconds(50)});
  EXPECT_EQ(outcome.code, StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Soon(seen_.canceled, 1));
  ClientStream stream(channel_, "/test.Stream/Echo", {.timeout = milliseconds(50)});
  EXPECT_EQ(stream.Finish().code, StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Soon(seen_.canceled, 2));
}

TEST_F(ServerTest, Caller_Cancels_HandlerIsNotifiedOnce) {
  UnaryCalls calls(channel_);
  const std::size_t held = calls.Start("/test.Unary/Hold", "");
  ASSERT_TRUE(Soon(seen_.served, 1));
  calls.Cancel(held);
  EXPECT_EQ(calls.Wait()[0].code, StatusCode::CANCELLED);
  EXPECT_TRUE(Soon(seen_.canceled, 1));
  EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
  EXPECT_EQ(seen_.canceled, 1);
}

// If a call has ended but its handler has not finished, the handler is not reused. Later calls get
// other handlers.
TEST_F(ServerTest, Handler_NeverFinishes_OthersAreServed) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Unary("Never", "", {.timeout = milliseconds(10)}).code,
              StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(WaitUntil(kSoon, [&] { return seen_.canceled >= seen_.served; }));
  EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
}

TEST_F(ServerTest, Handlers_CallsInSequence_AreReused) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Unary("Later", "x"), Ok("x"));
  EXPECT_EQ(seen_.handlers, 1);
  for (int i = 0; i < 100; ++i) {
    ClientStream stream(channel_, "/test.Stream/Count");
    EXPECT_TRUE(stream.Write("x"));
    EXPECT_TRUE(stream.HalfClose());
    EXPECT_EQ(stream.Read(), "1");
    EXPECT_EQ(stream.Finish(), Ok(""));
  }
  EXPECT_EQ(seen_.handlers, 2);
}

TEST_F(ServerTest, Unary_AThousandAtOnce_AreAllAnswered) {
  UnaryCalls calls(channel_);
  for (int i = 0; i < 1000; ++i) calls.Start("/test.Unary/Later", std::to_string(i));
  const auto outcomes = calls.Wait();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(outcomes[i], Ok(std::to_string(i)));
}

TEST_F(ServerTest, Calls_BeyondTheLimit_AreRefused) {
  Start({.max_calls = 2});
  UnaryCalls held(channel_);
  for (int i = 0; i < 2; ++i) held.Start("/test.Unary/Hold", "");
  ASSERT_TRUE(Soon(seen_.served, 2));
  EXPECT_EQ(Unary("Echo", "x", {.timeout = seconds(1)}).code, StatusCode::UNAVAILABLE);
  held.Cancel(0);
  EXPECT_TRUE(WaitUntil(kSoon, [&] { return Unary("Echo", "x") == Ok("x"); }));
}

TEST_F(ServerTest, Connection_TooOld_EndsAfterItsCalls) {
  Start({.max_connection_age = milliseconds(100)});
  UnaryCalls held(channel_);
  held.Start("/test.Unary/Hold", "");
  ASSERT_TRUE(Soon(seen_.served, 1));
  RawConnection caller(server_->address());
  caller.SendPreface();
  caller.Await([&] { return caller.closed(); });
  EXPECT_TRUE(caller.closed());
  EXPECT_EQ(caller.goaway(), 0U);
  EXPECT_EQ(seen_.canceled, 0);
  // This call uses a new connection: the connection of the held call accepts no more calls.
  EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
  held.Cancel(0);
}

TEST_F(ServerTest, Stream_Messages_AreReturnedInOrder) {
  ClientStream stream(channel_, "/test.Stream/Echo");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(stream.Write(std::to_string(i)));
    ASSERT_EQ(stream.Read(), std::to_string(i));
  }
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(stream.Write(std::to_string(i)));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(stream.Read(), std::to_string(i));
  EXPECT_TRUE(stream.HalfClose());
  EXPECT_FALSE(stream.Read());
  EXPECT_EQ(stream.Finish(), Ok(""));
  EXPECT_EQ(seen_.half_closed, 1);
  EXPECT_GE(seen_.writable, 1);
  EXPECT_EQ(seen_.wrong_thread, 0);
}

TEST_F(ServerTest, Stream_SentThenFinished_AllArrives) {
  ClientStream stream(channel_, "/test.Stream/Sized");
  const std::vector<std::size_t> sizes{200'000, 1, 0, 65'536, 300'000};
  for (const std::size_t size : sizes) ASSERT_TRUE(stream.Write(std::to_string(size)));
  EXPECT_TRUE(stream.HalfClose());
  for (const std::size_t size : sizes) EXPECT_EQ(stream.Read().value_or("none").size(), size);
  EXPECT_FALSE(stream.Read());
  EXPECT_EQ(stream.Finish(), Ok(""));
}

TEST_F(ServerTest, Stream_HalfClosedAtOnce_EndsWithOk) {
  ClientStream stream(channel_, "/test.Stream/Count");
  EXPECT_TRUE(stream.HalfClose());
  EXPECT_EQ(stream.Read(), "0");
  EXPECT_EQ(stream.Finish(), Ok(""));
}

TEST_F(ServerTest, Stream_FinishedByTheServer_Ends) {
  ClientStream refused(channel_, "/test.Stream/Refuse");
  EXPECT_FALSE(refused.Read());
  EXPECT_EQ(refused.Finish(),
            (Outcome{.code = StatusCode::PERMISSION_DENIED, .message = "not you"}));
  ClientStream first(channel_, "/test.Stream/First");
  EXPECT_TRUE(first.Write("x"));
  EXPECT_FALSE(first.Read());
  EXPECT_EQ(first.Finish(), Ok(""));
}

TEST_F(ServerTest, Stream_Canceled_HandlerIsNotified) {
  {
    ClientStream stream(channel_, "/test.Stream/Echo");
    ASSERT_TRUE(stream.Write("x"));
    ASSERT_EQ(stream.Read(), "x");
  }
  EXPECT_TRUE(Soon(seen_.canceled, 1));
  EXPECT_EQ(seen_.half_closed, 0);
}

TEST_F(ServerTest, Stream_ReadingPausedAndResumed_LosesNothing) {
  ClientStream stream(channel_, "/test.Stream/Slow");
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(stream.Write(std::to_string(i)));
  EXPECT_TRUE(stream.HalfClose());
  for (int i = 0; i < 200; ++i) ASSERT_EQ(stream.Read(), std::to_string(i));
  EXPECT_FALSE(stream.Read());
  EXPECT_EQ(stream.Finish(), Ok(""));
}

TEST_F(ServerTest, Stream_ReadingPausedAfterOne_AtMostOneMoreArrives) {
  ClientStream stream(channel_, "/test.Stream/Once");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(stream.Write("x"));
  EXPECT_EQ(stream.Read(), "x");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
  EXPECT_LE(seen_.received, 2);
}

// 30 messages have 30 MB. The windows and gRPC's own buffers together have room for less.
TEST_F(ServerTest, Stream_ReadingPaused_StopsTheCaller) {
  ClientStream stream(channel_, "/test.Stream/Deaf");
  bool held = false;
  for (int i = 0; i < 30 && !held; ++i) {
    stream.StartWrite(std::string(1'000'000, 'x'));
    held = !stream.AwaitWrite(milliseconds(500));
  }
  EXPECT_TRUE(held);
  EXPECT_LE(seen_.received, 1);
  EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
  stream.Cancel();
  EXPECT_TRUE(Soon(seen_.canceled, 1));
}

TEST_F(ServerTest, Stop_WithNothingOpen_IsQuick) {
  EXPECT_EQ(Unary("Echo", "x"), Ok("x"));
  const auto began = std::chrono::steady_clock::now();
  server_->Stop(seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSoon);
  EXPECT_EQ(Unary("Echo", "x", {.timeout = seconds(1)}).code, StatusCode::UNAVAILABLE);
}

TEST_F(ServerTest, Stop_StreamOpen_StreamEndsWithUnavailable) {
  ClientStream stream(channel_, "/test.Stream/Echo");
  ASSERT_TRUE(stream.Write("x"));
  ASSERT_EQ(stream.Read(), "x");
  server_->Stop(seconds(60));
  EXPECT_EQ(stream.Finish(),
            (Outcome{.code = StatusCode::UNAVAILABLE, .message = "the server is stopping"}));
  EXPECT_EQ(seen_.drained, 1);
}

TEST_F(ServerTest, Stop_HandlersNeverFinish_ReturnsAfterDrain) {
  UnaryCalls calls(channel_);
  calls.Start("/test.Unary/Never", "");
  ClientStream stream(channel_, "/test.Stream/Never");
  ASSERT_TRUE(Soon(seen_.served, 2));
  const auto began = std::chrono::steady_clock::now();
  server_->Stop(milliseconds(200));
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(took, milliseconds(190));
  EXPECT_LT(took, kSoon);
  EXPECT_EQ(seen_.canceled, 2);
  EXPECT_NE(calls.Wait()[0].code, StatusCode::OK);
  EXPECT_NE(stream.Finish().code, StatusCode::OK);
}

TEST_F(ServerTest, Stop_CallOpen_CallMayFinish) {
  UnaryCalls calls(channel_);
  calls.Start("/test.Unary/Hold", "", {.timeout = milliseconds(500)});
  ASSERT_TRUE(Soon(seen_.served, 1));
  const auto began = std::chrono::steady_clock::now();
  server_->Stop(seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - began, kSoon);
  EXPECT_EQ(calls.Wait()[0].code, StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(ServerTest, Start_AddressInUse_Fails) {
  const auto second = rpc::http2::Server::Start(threads_, {}, {.address = server_->address()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace sluice::test
