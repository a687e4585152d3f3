// If a server is absent, disconnects, does not answer or uses another protocol, the error is clear
// and nothing hangs.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include "base/thread.h"
#include "load/generator.h"
#include "tests/support/http2_frame.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::load {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::Http2Frame;

const std::string kSettings = Http2Frame{.type = Http2Frame::kSettings}.Bytes();
// INITIAL_WINDOW_SIZE (4) of streams, and the window of the connection. Both are about 1 GiB.
const std::string kWideOpen =
    Http2Frame{.type = Http2Frame::kSettings,
               .payload = test::BigEndian(4, 2) + test::BigEndian(0x3f000000, 4)}
        .Bytes() +
    Http2Frame{.type = Http2Frame::kWindowUpdate, .payload = test::BigEndian(0x3f000000, 4)}
        .Bytes();
const std::string kDomain = "counted";

// Accepts one connection and sends `greeting`. After the first request, sends `answer`. If `closes`
// is set, then closes the connection, otherwise continues to receive.
class ScriptedServer {
 public:
  struct Script {
    std::string greeting;
    std::string answer;
    bool closes = true;
  };

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    address_.unix_path = dir_.path() / "h2.sock";
    listener_ = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
    address_.unix_path.copy(name.sun_path, sizeof(name.sun_path) - 1);
    EXPECT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    thread_ = Thread("scripted", [this] { Serve(); });
  }

  ~ScriptedServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.Join();
    close(listener_);
  }

  const Address& address() const { return address_; }

  // The number of received messages. May be called on any thread.
  int requests() const { return requests_; }
  // The number of reads so far.
  int reads() const { return reads_; }

 private:
  void Serve() {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    Say(connection, script_.greeting);
    std::string heard;
    std::string body;
    char buffer[4096];
    for (ssize_t size; (size = read(connection, buffer, sizeof(buffer))) > 0;) {
      ++reads_;
      heard.append(buffer, static_cast<std::size_t>(size));
      const bool first = requests_ == 0;
      TakeBody(heard, body);
      CountRequests(body);
      if (!first || requests_ == 0) continue;
      Say(connection, script_.answer);
      if (script_.closes) break;
    }
    close(connection);
  }

  // Moves the content of DATA frames to `body`, since a domain may continue in the next frame.
  // Leaves the beginning of an incomplete frame in `heard`.
  void TakeBody(std::string& heard, std::string& body) {
    constexpr std::string_view kPreface = test::kHttp2Preface;
    if (!greeted_ && heard.size() < kPreface.size()) return;
    if (!std::exchange(greeted_, true)) heard.erase(0, kPreface.size());
    while (const auto frame = Http2Frame::Take(heard)) {
      if (frame->type == Http2Frame::kData) body += frame->payload;
    }
  }

  // Counts messages by their domain, which is never compressed. Leaves bytes that may be the
  // beginning of another domain in `body`.
  void CountRequests(std::string& body) {
    std::size_t counted = 0;
    for (std::size_t at; (at = body.find(kDomain, counted)) != body.npos; ++requests_) {
      counted = at + kDomain.size();
    }
    body.erase(0, std::max(counted, body.size() - std::min(body.size(), kDomain.size() - 1)));
  }

  static void Say(int connection, const std::string& bytes) {
    EXPECT_EQ(send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  const Script script_;
  const test::TempDir dir_;
  Address address_;
  int listener_ = -1;
  bool greeted_ = false;  // the client has sent its preface
  std::atomic<int> requests_ = 0;
  std::atomic<int> reads_ = 0;
  Thread thread_;
};

Plan PlanFor(const Address& address) {
  return {.target = {.address = address},
          .request = std::string{0x0a, static_cast<char>(kDomain.size())} + kDomain,
          .key_name = "user",
          .in_flight = 1,
          .connections = 1,
          .duration = seconds(20),
          .timeout = seconds(20)};
}

LoadStats StatsAgainst(const ScriptedServer::Script& script, Rpc rpc = Rpc::kUnary) {
  ScriptedServer server(script);
  Plan plan = PlanFor(server.address());
  plan.rpc = rpc;
  const auto generator = Generator::Start(plan);
  if (!generator) {
    ADD_FAILURE() << generator.error().message;
    return {};
  }
  EXPECT_TRUE((*generator)->WaitUntil(SteadyNow() + seconds(10)));  // long before the end
  return (*generator)->stats();
}

std::string StartError(const ScriptedServer::Script& script, Duration timeout) {
  ScriptedServer server(script);
  Plan plan = PlanFor(server.address());
  plan.timeout = timeout;
  const auto generator = Generator::Start(plan);
  if (generator) return "";
  EXPECT_EQ(generator.error().code, ErrorCode::kUnavailable);
  return generator.error().message;
}

TEST(BadServer, Absent_ReportsTheSystemsError) {
  const auto unix_socket = Generator::Start(PlanFor(*Address::Parse("unix:/nonexistent/socket")));
  ASSERT_FALSE(unix_socket);
  EXPECT_EQ(unix_socket.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(unix_socket.error().message, "No such file or directory");
  const auto tcp = Generator::Start(PlanFor(*Address::Parse("127.0.0.1:1")));
  ASSERT_FALSE(tcp);
  EXPECT_EQ(tcp.error().message, "Connection refused");
}

TEST(BadServer, Silent_StartFailsAfterTheTimeout) {
  EXPECT_EQ(StartError({}, milliseconds(50)), "the server does not answer in HTTP/2");
}

TEST(BadServer, SpeaksAnotherProtocol_IsReported) {
  const std::string error =
      StartError({.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"}, seconds(9));
  EXPECT_NE(error.find("HTTP/2"), error.npos) << error;
}

TEST(BadServer, ClosesTheConnection_CallsFailAndTheRunEnds) {
  for (const Rpc rpc : {Rpc::kUnary, Rpc::kBatch, Rpc::kStream}) {
    const LoadStats stats = StatsAgainst({.greeting = kSettings}, rpc);
    EXPECT_EQ(stats.failed, 1u);
    EXPECT_EQ(stats.errors.at(GrpcStatus::kUnavailable).first, "the server closed the connection");
    EXPECT_EQ(stats.lost, "the server closed the connection");
  }
}

TEST(BadServer, GoawayExcludesTheCall_CallFailsAndTheRunEnds) {
  const LoadStats stats =
      StatsAgainst({.greeting = kSettings,
                    .answer = Http2Frame{.type = Http2Frame::kGoaway,
                                         .payload = test::BigEndian(0, 4) + test::BigEndian(11, 4) +
                                                    "too many of you"}
                                  .Bytes(),
                    .closes = false});
  EXPECT_EQ(stats.errors.at(GrpcStatus::kUnavailable).count, 1u);
  EXPECT_NE(stats.lost.find("GOAWAY (ENHANCE_YOUR_CALM): too many of you"), stats.lost.npos)
      << stats.lost;
}

TEST(BadServer, ResetsTheCall_CallFailsWithTheCodeOfTheReset) {
  const LoadStats stats = StatsAgainst({.greeting = kSettings,
                                        .answer = Http2Frame{.type = Http2Frame::kResetStream,
                                                             .stream = 1,
                                                             .payload = test::BigEndian(8, 4)}
                                                      .Bytes()});
  EXPECT_EQ(stats.errors.at(GrpcStatus::kCancelled).first, "the server reset the call: CANCEL");
}

TEST(BadServer, NotGrpc_ReportsTheHttpStatus) {
  // ":status: 404" is entry 13 of HPACK's table.
  const LoadStats stats =
      StatsAgainst({.greeting = kSettings,
                    .answer = Http2Frame{.type = Http2Frame::kHeaders,
                                         .stream = 1,
                                         .payload = "\x8d",
                                         .flags = Http2Frame::kEndStream | Http2Frame::kEndHeaders}
                                  .Bytes()});
  EXPECT_EQ(stats.errors.at(GrpcStatus::kUnimplemented).first,
            "HTTP status 404 without a grpc-status");
}

// Whether all `in_flight` messages arrive, although the server sends nothing that would wake the
// generator. Each message has at least `size` bytes.
bool AllComeAtOnce(Rpc rpc, std::uint32_t in_flight, std::size_t size) {
  ScriptedServer server({.greeting = kWideOpen, .closes = false});
  Plan plan = PlanFor(server.address());
  plan.rpc = rpc;
  plan.in_flight = in_flight;
  plan.key_name = std::string(size, 'k');
  plan.timeout = seconds(3);
  const auto generator = Generator::Start(plan);
  return test::WaitUntil(seconds(20),
                         [&] { return server.requests() == static_cast<int>(in_flight); });
}

TEST(BadServer, AnswersNothing_ReceivesTheMaximumInFlight) {
  EXPECT_TRUE(AllComeAtOnce(Rpc::kUnary, 20'000, 1));
  EXPECT_TRUE(AllComeAtOnce(Rpc::kStream, 20'000, 1));
  EXPECT_TRUE(AllComeAtOnce(Rpc::kStream, 1000, 20'000));
}

// 5,000 messages are due in 100 ms. If messages are batched for 100 us, the generator sends about
// 1,000 batches.
TEST(BadServer, OpenLoop_MessagesDueCloseTogetherAreSentTogether) {
  ScriptedServer server({.greeting = kWideOpen, .closes = false});
  Plan plan = PlanFor(server.address());
  plan.rpc = Rpc::kStream;
  plan.rate = 50'000;
  plan.in_flight = kMaxInFlight;
  plan.duration = milliseconds(100);
  plan.timeout = milliseconds(500);
  const auto generator = Generator::Start(plan);
  EXPECT_TRUE(test::WaitUntil(seconds(10), [&] { return server.requests() == 5000; }));
  EXPECT_LT(server.reads(), 1500);
}

}  // namespace
}  // namespace sluice::load
