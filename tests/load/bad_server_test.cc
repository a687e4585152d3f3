// Servers that are absent, break off, or speak something else: a clear error, and no hang.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/thread.h"
#include "load/generator.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::load {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// An HTTP/2 frame. `type`: 1 HEADERS, 3 RST_STREAM, 4 SETTINGS, 7 GOAWAY,
// 8 WINDOW_UPDATE.
std::string Frame(char type, char stream, const std::string& payload, char flags = 0) {
  const char size = static_cast<char>(payload.size());
  return std::string{0, 0, size, type, flags, 0, 0, 0, stream} + payload;
}

std::string Code(char error) { return {0, 0, 0, error}; }

const std::string kSettings = Frame(4, 0, "");
// INITIAL_WINDOW_SIZE (4) of streams and the connection's window, both of about a GiB.
const std::string kWideOpen =
    Frame(4, 0, std::string{0, 4} + std::string{0x3f, 0, 0, 0}) + Frame(8, 0, {0x3f, 0, 0, 0});
const std::string kDomain = "counted";
constexpr char kEndStream = 1;
constexpr char kEndHeaders = 4;
constexpr std::size_t kFrameHeader = 9;
constexpr std::size_t kPreface = 24;  // what a client says before its first frame

// Accepts one connection, says `greeting`, and once the first request is there `answer`; then it
// closes the connection if it is told to, or listens on.
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

  // How many have come; on any thread.
  int requests() const { return requests_; }

 private:
  void Serve() {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) return;
    Say(connection, script_.greeting);
    std::string heard;
    std::string body;
    char buffer[4096];
    for (ssize_t size; (size = read(connection, buffer, sizeof(buffer))) > 0;) {
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

  // Moves what DATA frames (type 0) hold to `body`: where one ends, the next may go on in the
  // middle of a word. Leaves what may be the begin of another frame.
  void TakeBody(std::string& heard, std::string& body) {
    if (!greeted_ && heard.size() < kPreface) return;
    std::size_t at = std::exchange(greeted_, true) ? 0 : kPreface;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(heard[at + i]); };
    while (heard.size() - at >= kFrameHeader) {
      const std::size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (heard.size() - at < kFrameHeader + size) break;
      if (byte(3) == 0) body.append(heard, at + kFrameHeader, size);
      at += kFrameHeader + size;
    }
    heard.erase(0, at);
  }

  // By their domain, which nothing compresses. Leaves what may be the begin of another.
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
  Thread thread_;
};

Plan PlanFor(const Address& address) {
  return {.address = address,
          .request = std::string{0x0a, static_cast<char>(kDomain.size())} + kDomain,
          .in_flight = 1,
          .connections = 1,
          .duration = seconds(20),
          .timeout = seconds(20)};
}

Tally TallyOf(const ScriptedServer::Script& script, Rpc rpc = Rpc::kUnary) {
  ScriptedServer server(script);
  Plan plan = PlanFor(server.address());
  plan.rpc = rpc;
  const auto generator = Generator::Start(plan);
  if (!generator) {
    ADD_FAILURE() << generator.error().message;
    return {};
  }
  EXPECT_TRUE((*generator)->WaitUntil(SteadyNow() + seconds(10)));  // long before the end
  return (*generator)->tally();
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

TEST(BadServer, Absent_SaysWhatTheSystemSays) {
  const auto unix_socket = Generator::Start(PlanFor(*Address::Parse("unix:/nonexistent/socket")));
  ASSERT_FALSE(unix_socket);
  EXPECT_EQ(unix_socket.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(unix_socket.error().message, "No such file or directory");
  const auto tcp = Generator::Start(PlanFor(*Address::Parse("127.0.0.1:1")));
  ASSERT_FALSE(tcp);
  EXPECT_EQ(tcp.error().message, "Connection refused");
}

TEST(BadServer, Silent_GivenUpAfterTheTimeout) {
  EXPECT_EQ(StartError({}, milliseconds(50)), "who is there does not speak HTTP/2: no answer");
}

TEST(BadServer, SpeaksSomethingElse_SaysSo) {
  const std::string error =
      StartError({.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"}, seconds(9));
  EXPECT_NE(error.find("HTTP/2"), error.npos) << error;
}

TEST(BadServer, ClosesTheConnection_CallsFailAndTheRunEnds) {
  for (const Rpc rpc : {Rpc::kUnary, Rpc::kBatch, Rpc::kStream}) {
    const Tally tally = TallyOf({.greeting = kSettings}, rpc);
    EXPECT_EQ(tally.failed, 1u);
    EXPECT_EQ(tally.errors.at(kUnavailable).first, "the server closed the connection");
    EXPECT_EQ(tally.lost, "the server closed the connection");
  }
}

TEST(BadServer, GoawayBeforeTheCall_RefusedAndTheRunEnds) {
  const Tally tally = TallyOf({.greeting = kSettings,
                               .answer = Frame(7, 0, Code(0) + Code(11) + "too many of you"),
                               .closes = false});
  EXPECT_EQ(tally.errors.at(kUnavailable).count, 1u);
  EXPECT_NE(tally.lost.find("GOAWAY (ENHANCE_YOUR_CALM): too many of you"), tally.lost.npos)
      << tally.lost;
}

TEST(BadServer, ResetsTheCall_FailsByTheReason) {
  const Tally tally = TallyOf({.greeting = kSettings, .answer = Frame(3, 1, Code(8))});
  EXPECT_EQ(tally.errors.at(kCancelled).first, "the server reset the call: CANCEL");
}

TEST(BadServer, NoGrpc_SaysTheHttpStatus) {
  // ":status: 404" is entry 13 of HPACK's table.
  const Tally tally =
      TallyOf({.greeting = kSettings, .answer = Frame(1, 1, "\x8d", kEndStream | kEndHeaders)});
  EXPECT_EQ(tally.errors.at(kUnimplemented).first, "HTTP status 404 without a grpc-status");
}

// Whether all of `in_flight` messages come in at once, although the server says nothing that would
// wake the generator. Each has `size` bytes at least.
bool AllComeAtOnce(Rpc rpc, std::uint32_t in_flight, std::size_t size) {
  ScriptedServer server({.greeting = kWideOpen, .closes = false});
  Plan plan = PlanFor(server.address());
  plan.rpc = rpc;
  plan.in_flight = in_flight;
  plan.key_name = std::string(size, 'k');
  plan.timeout = milliseconds(500);
  const auto generator = Generator::Start(plan);
  return test::WaitUntil(seconds(2),
                         [&] { return server.requests() == static_cast<int>(in_flight); });
}

TEST(BadServer, AnswersNothing_AllThatMayBeUnderWayComes) {
  EXPECT_TRUE(AllComeAtOnce(Rpc::kUnary, 20'000, 1));
  EXPECT_TRUE(AllComeAtOnce(Rpc::kStream, 20'000, 1));
  EXPECT_TRUE(AllComeAtOnce(Rpc::kStream, 1000, 20'000));
}

}  // namespace
}  // namespace sluice::load
