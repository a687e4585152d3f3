// Routes, addresses, and the limit on connections.
#include "http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <latch>
#include <string>
#include <vector>

#include "metrics/metrics_registry.h"
#include "net/acceptor.h"
#include "net/tls_context.h"
#include "tests/http/http_fixture.h"
#include "tests/net/tls_client.h"
#include "tests/support/captured_log.h"
#include "tests/support/certificates.h"
#include "tests/support/http_get.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGetHealth = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

std::vector<HttpRoute> Routes() {
  return {{"/healthz", AnsweredBy([] { return HttpResponse{.body = "ok\n"}; })},
          {"/gone", AnsweredBy([] { return HttpResponse{.status = 410, .body = "no more\n"}; })},
          {"/post", AnsweredBy([] { return HttpResponse{.status = 204, .body = {}}; }), {"POST"}}};
}

class HttpServer_Test : public HttpServerTest {};

struct Case {
  std::string request;
  std::string status;
  std::string end;
};

TEST_F(HttpServer_Test, Request_IsAnsweredByItsRoute) {
  Start(Routes());
  const std::string close = " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  for (const auto& [request, status, end] : std::vector<Case>{
           {"GET /healthz" + close, "200 OK", "Content-Length: 3\r\n\r\nok\n"},
           {"HEAD /healthz" + close, "200 OK", "Content-Length: 3\r\n\r\n"},
           {"GET /healthz?verbose=1" + close, "200 OK", "ok\n"},
           {"GET /gone" + close, "410 Gone", "no more\n"},
           {"GET /" + close, "404 Not Found", "not found\n"},
           {"GET /healthz/" + close, "404 Not Found", "not found\n"},
           {"POST /healthz" + close, "405 Method Not Allowed", "allowed: GET, HEAD\n"},
           {"POST /post" + close, "204 No Content", "\r\n\r\n"},
           {"GET /post" + close, "405 Method Not Allowed", "allowed: POST\n"},
           {"GET /healthz HTTP/1.0\r\n\r\n", "200 OK", "ok\n"},
           {"nonsense\r\n\r\n", "400 Bad Request", "\r\n\r\n"},
           {"GET / HTTP/1.1\r\nHost: x\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n",
            "431 Request Header Fields Too Large", "\r\n\r\n"},
           {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", "413 Payload Too Large",
            "\r\n\r\n"},
       }) {
    EXPECT_THAT(Ask(request),
                AllOf(StartsWith("HTTP/1."), HasSubstr(" " + status + "\r\n"), EndsWith(end)))
        << request.substr(0, 40);
  }
}

TEST_F(HttpServer_Test, Stop_ClosesIdleConnectionsAndRemovesTheSocket) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(kGetHealth);
  client.ReadUntil("ok\n");
  server_->Stop(0s);
  EXPECT_EQ("", client.ReadAll());
  EXPECT_NE(0, access(address_.unix_path.c_str(), F_OK));
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpServer_Test, StopWithDrain_AnswersOpenRequests) {
  std::atomic<HttpResponder*> waiting = nullptr;
  Start({{"/", [&](const HttpRequest&, const HttpResponder& respond) {
            waiting = new HttpResponder(respond);
          }}});
  auto client = std::make_unique<HttpClient>(address_);
  client->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return waiting != nullptr; }));
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    idle.push_back(std::make_unique<HttpClient>(address_));
  }
  ASSERT_TRUE(Eventually([&] { return server_->connections() == 1 + idle.size(); }));
  auto stopped = std::async(std::launch::async, [this] { server_->Stop(1min); });
  // Each thread closes its idle connections when it begins to drain.
  for (const auto& other : idle) EXPECT_EQ(other->ReadAll(), "");
  const std::unique_ptr<HttpResponder> respond(waiting);
  (*respond)({.body = "late\n"});
  EXPECT_THAT(client->ReadAll(), AllOf(HasSubstr("Connection: close\r\n"), EndsWith("late\n")));
  client.reset();
  stopped.get();
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpServer_Test, StopWithDrain_IdleConnectionMaySendALastRequest) {
  Start(Routes(), {.last_idle_time = 1min});
  auto client = std::make_unique<HttpClient>(address_);
  ASSERT_TRUE(Eventually([this] { return server_->connections() == 1; }));
  auto stopped = std::async(std::launch::async, [this] { server_->Stop(1min); });
  ASSERT_TRUE(Eventually([this] { return access(address_.unix_path.c_str(), F_OK) != 0; }))
      << "the server no longer listens";
  std::string answer;
  while (answer.find("Connection: close") == std::string::npos) {
    ASSERT_TRUE(client->Send(kGetHealth));
    answer = client->ReadUntil("ok\n");
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 200 OK"));
  }
  EXPECT_EQ("", client->ReadAll());
  client.reset();
  stopped.get();
}

TEST_F(HttpServer_Test, StopWithDrain_DoesNotWaitForIdleConnections) {
  Start(Routes());
  const HttpClient silent(address_);
  ASSERT_TRUE(Eventually([this] { return server_->connections() == 1; }));
  server_->Stop(std::chrono::hours(1));
  EXPECT_EQ(server_->connections(), 0U);
}

TEST_F(HttpServer_Test, Start_AddressInUse_Fails) {
  Start(Routes());
  const auto second = HttpServer::Start(threads_, address_, {});
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use"));
}

TEST_F(HttpServer_Test, Start_OnTcpWithoutPort_ListensOnAFreePort) {
  const auto server =
      HttpServer::Start(threads_, {.host = "127.0.0.1", .unix_path = {}}, Routes()).value();
  const Address bound = server->address();
  EXPECT_NE(0, bound.port);
  EXPECT_EQ("ok\n", test::HttpGet(bound.ToString(), "/healthz").body);
}

TEST_F(HttpServer_Test, Connections_AreSpreadOverThreads) {
  std::array<std::atomic<int>, 2> handled{};
  Start({{"/", [&](const HttpRequest&, const HttpResponder& respond) {
            ++handled[net::Loop::Current()->index()];
            respond({});
          }}});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 20; ++i) {
    auto& client = *clients.emplace_back(std::make_unique<HttpClient>(address_));
    client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    client.ReadUntil("\r\n\r\n");
  }
  EXPECT_GT(handled[0], 0);
  EXPECT_GT(handled[1], 0);
}

TEST_F(HttpServer_Test, OverTls_AnswersAndNamesThePeer) {
  const test::Authority authority(dir_, "ca");
  const auto certificate =
      authority.Issue({.name = "server", .alternative_names = "DNS:client.test"});
  const auto context =
      net::TlsServerContext::Load({.paths = {.certificate_chain = certificate.chain,
                                             .private_key = certificate.key,
                                             .ca = authority.path()}})
          .value();
  Start({{"/",
          [](const HttpRequest& request, const HttpResponder& respond) {
            respond({.body = request.peer.identities.at(0)});
          }}},
        {.tls = context.get()});
  net::TlsClient client(
      net::BlockingSocket::ConnectTo(address_),
      {.ca = authority.path(), .certificate = certificate, .alpn = "\x08http/1.1"});
  ASSERT_EQ(client.Handshake(), "");
  ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_THAT(client.Read(10'000), EndsWith("\r\n\r\ndns:client.test"));
  EXPECT_EQ(client.error(), "end");
}

// A new connection goes to the thread with fewer connections. Here, that thread has no connection
// that it could close.
TEST_F(HttpServer_Test, TooManyConnections_AnIdleOneOfAnotherThreadMakesRoom) {
  MetricsRegistry metrics;
  Start(Routes(), {.max_connections = 1, .metrics = &metrics});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 10; ++i) {
    auto& client = *clients.emplace_back(std::make_unique<HttpClient>(address_));
    client.Send(kGetHealth);
    ASSERT_THAT(client.ReadUntil("ok\n"), HasSubstr("200 OK"));
    EXPECT_EQ(i == 0 ? "" : clients[i - 1]->ReadAll(), "");
  }
  EXPECT_THAT(metrics.Render(), HasSubstr("sluice_http_connections_refused_total 0"));
}

// With one thread, each connection can replace any other.
class HttpServer_OneThread : public HttpServerTest {
 protected:
  void StartOnOneThread(std::vector<HttpRoute> routes, const HttpOptions& options) {
    one_thread_.Start();
    server_ = HttpServer::Start(one_thread_, address_, std::move(routes), options).value();
  }
  ~HttpServer_OneThread() override { server_.reset(); }

  net::IoThreads one_thread_{1};
};

TEST_F(HttpServer_OneThread, TooManyConnections_TheLongestIdleMakesRoom) {
  MetricsRegistry metrics;
  StartOnOneThread(Routes(), {.max_connections = 2, .metrics = &metrics});
  HttpClient first(address_);
  first.Send(kGetHealth);
  first.ReadUntil("ok\n");
  HttpClient second(address_);
  second.Send(kGetHealth);
  second.ReadUntil("ok\n");
  first.Send(kGetHealth);
  first.ReadUntil("ok\n");
  HttpClient third(address_);
  third.Send(kGetHealth);
  EXPECT_THAT(third.ReadUntil("ok\n"), HasSubstr("200 OK"));
  EXPECT_EQ(second.ReadAll(), "");
  first.Send(kGetHealth);
  EXPECT_THAT(first.ReadUntil("ok\n"), HasSubstr("200 OK"));
  EXPECT_THAT(metrics.Render(), AllOf(HasSubstr("sluice_http_connections_refused_total 0"),
                                      HasSubstr("sluice_http_connections_replaced_total 1")));
}

// A route whose requests stay in `waiting` until the test answers them.
HttpRoute Waiting(std::vector<HttpResponder>& waiting, std::atomic<std::size_t>& count) {
  return {"/wait", [&](const HttpRequest&, const HttpResponder& respond) {
            waiting.push_back(respond);
            ++count;
          }};
}

class HttpServer_Full : public HttpServer_OneThread {
 protected:
  // Starts the server, and opens `max_connections` connections whose requests wait for answers.
  void StartFull(HttpOptions options) {
    options.metrics = &metrics_;
    auto routes = Routes();
    routes.push_back(Waiting(waiting_, count_));
    routes[0].is_probe = true;
    StartOnOneThread(std::move(routes), options);
    for (std::size_t i = 0; i < options.max_connections; ++i) {
      auto& client = *busy_.emplace_back(std::make_unique<HttpClient>(address_));
      client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    ASSERT_TRUE(Eventually([&] { return count_ == options.max_connections; }));
  }

  MetricsRegistry metrics_;
  std::vector<HttpResponder> waiting_;
  std::atomic<std::size_t> count_ = 0;
  std::vector<std::unique_ptr<HttpClient>> busy_;
};

TEST_F(HttpServer_Full, NewConnection_Gets503AndRetryAfter) {
  const test::CapturedLog log;
  StartFull({.max_connections = 2});
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(Ask("GET /gone HTTP/1.1\r\nHost: x\r\n\r\n"),
                AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("Retry-After: 1\r\n"),
                      HasSubstr("Connection: close\r\n")));
  }
  EXPECT_THAT(metrics_.Render(), HasSubstr("sluice_http_connections_refused_total 5"));
  EXPECT_THAT(log.text(), HasSubstr("2 connections are open and wait for answers"));
  waiting_[0]({.body = "late\n"});
  EXPECT_THAT(busy_[0]->ReadUntil("late\n"), HasSubstr("200 OK"));
  EXPECT_THAT(Ask("GET /gone HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              HasSubstr("410 Gone"))
      << "the first connection is idle now";
}

TEST_F(HttpServer_Full, ProbeAmongSilentConnections_IsAnsweredAndItsConnectionEnds) {
  StartFull({.max_connections = 1, .no_place_time = 1min});
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 100; ++i) silent.push_back(std::make_unique<HttpClient>(address_));
  EXPECT_THAT(Ask(std::string(kGetHealth)),
              AllOf(HasSubstr("200 OK"), HasSubstr("Connection: close\r\n")));
}

TEST_F(HttpServer_Full, ConnectionWithoutPlace_EndsSoon) {
  StartFull({.max_connections = 1, .no_place_time = 30ms});
  HttpClient silent(address_);
  EXPECT_EQ(silent.ReadAll(), "");
  HttpClient slow(address_);
  slow.Send("GET /healthz HT");
  EXPECT_EQ(slow.ReadAll(), "");
}

// A connection counts as stuck if its client is slow to send the request or to read the answer.
TEST_F(HttpServer_OneThread, TooManyConnections_StuckOnesMakeRoomBeforeIdleOnes) {
  auto routes = Routes();
  routes.push_back(
      {"/big", AnsweredBy([] { return HttpResponse{.body = std::string(8'000'000, 'x')}; })});
  StartOnOneThread(std::move(routes), {.max_connections = 3});
  HttpClient idle(address_);
  idle.Send(kGetHealth);
  idle.ReadUntil("ok\n");
  HttpClient unread(address_);
  unread.Send("GET /big HTTP/1.1\r\nHost: x\r\n\r\n");
  unread.ReadUntil("x");
  HttpClient incomplete(address_);
  incomplete.Send("GET /healthz HT");
  ASSERT_TRUE(Eventually([&] { return server_->connections() == 3; }));
  for (int i = 0; i < 20; ++i) one_thread_.RunOn(0, [](net::EpollLoop&) {});
  HttpClient first(address_);
  first.Send(kGetHealth);
  EXPECT_THAT(first.ReadUntil("ok\n"), HasSubstr("200 OK"));
  EXPECT_LT(unread.ReadAll().size(), 8'000'000U);
  HttpClient second(address_);
  second.Send(kGetHealth);
  EXPECT_THAT(second.ReadUntil("ok\n"), HasSubstr("200 OK"));
  EXPECT_EQ(incomplete.ReadAll(), "");
  idle.Send(kGetHealth);
  EXPECT_THAT(idle.ReadUntil("ok\n"), HasSubstr("200 OK"));
}

TEST_F(HttpServer_OneThread, UnreadAnswersExceedTheMemoryLimit_OldestConnectionIsClosed) {
  MetricsRegistry metrics;
  std::atomic<int> answered = 0;
  StartOnOneThread({{"/big", AnsweredBy([&] {
                       ++answered;
                       return HttpResponse{.body = std::string(8'000'000, 'x')};
                     })}},
                   {.max_connections = 100, .max_buffered = 30'000'000, .metrics = &metrics});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 10; ++i) {
    auto& client = *clients.emplace_back(std::make_unique<HttpClient>(address_));
    client.Send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return answered == i + 1; }));
  }
  for (int i = 0; i < 20; ++i) one_thread_.RunOn(0, [](net::EpollLoop&) {});
  EXPECT_LE(server_->connections(), 3U);
  EXPECT_LT(clients.front()->ReadAll().size(), 8'000'000U);
  EXPECT_GE(clients.back()->ReadAll().size(), 8'000'000U);
}

TEST_F(HttpServer_OneThread, DelayedAnswers_TakeAtMostHalfOfThePlaces) {
  std::vector<HttpResponder> waiting;
  std::vector<bool> may_wait;
  std::atomic<std::size_t> count = 0;
  StartOnOneThread({{"/",
                     [&](const HttpRequest& request, const HttpResponder& respond) {
                       may_wait.push_back(request.may_wait);
                       waiting.push_back(respond);
                       ++count;
                     }}},
                   {.max_connections = 6});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (std::size_t i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<HttpClient>(address_));
    clients.back()->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return count == i + 1; }));
  }
  EXPECT_THAT(may_wait, ElementsAre(true, true, true, false, false));
  one_thread_.RunOn(0, [&](net::EpollLoop&) {
    waiting[0]({.body = "done\n"});
    waiting[1]({.body = "done\n", .delay = 1h});
    waiting[3]({.body = "done\n"});
  });
  clients[0]->ReadUntil("done\n");
  clients[3]->ReadUntil("done\n");
  clients[0]->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return count == 6; }));
  EXPECT_FALSE(may_wait.back())
      << "the answer to client 2 is delayed, and clients 3 and 5 wait for answers";
  clients[1].reset();
  clients[2].reset();
  ASSERT_TRUE(Eventually([&] { return server_->connections() == 3; }));
  clients[3]->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(Eventually([&] { return count == 7; }));
  EXPECT_TRUE(may_wait.back());
}

// Connects from a separate process, so that this process has only the server's descriptors, not
// those of the clients.
class ConnectingChild {
 public:
  // REQUIRES: this process has one thread
  ConnectingChild() {
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, channel_.data()));
    pid_ = fork();
    if (pid_ == 0) Work();
    const timeval timeout{.tv_sec = 10, .tv_usec = 0};
    setsockopt(channel_[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  ~ConnectingChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    for (const int fd : channel_) close(fd);
  }

  // Returns when `count` connections have been made. They stay open.
  void Connect(const std::string& unix_path, int count) {
    Order order{.count = count, .path = {}};
    unix_path.copy(order.path.data(), order.path.size() - 1);
    ASSERT_EQ(static_cast<ssize_t>(sizeof order), write(channel_[0], &order, sizeof order));
    int made = 0;
    ASSERT_EQ(static_cast<ssize_t>(sizeof made), read(channel_[0], &made, sizeof made));
    ASSERT_EQ(count, made);
  }

 private:
  struct Order {
    int count;
    std::array<char, 108> path;
  };

  [[noreturn]] void Work() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (Order order; read(channel_[1], &order, sizeof order) == sizeof order;) {
      const net::Endpoint to =
          net::Endpoint::FromNumeric({.host = {}, .unix_path = order.path.data()}).value();
      int made = 0;
      for (; made < order.count; ++made) {
        if (connect(socket(AF_UNIX, SOCK_STREAM, 0), to.get(), to.size) != 0) break;
      }
      if (write(channel_[1], &made, sizeof made) < 0) break;
    }
    _exit(0);
  }

  std::array<int, 2> channel_{};
  pid_t pid_ = -1;
};

class FileLimit {
 public:
  explicit FileLimit(rlim_t files) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{.rlim_cur = files, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~FileLimit() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// Here, the process has 400 descriptors. 400 idle HTTP connections must not use all of them, since
// gRPC callers need some, too. The same is true for connections that wait for a slow thread.
TEST(HttpServer_WithFewDescriptors, IdleConnections_DoNotBlockOthers) {
  constexpr int kFiles = 400;
  constexpr int kCallers = 200;
  const test::CapturedLog log;
  const test::TempDir dir;
  ConnectingChild child;
  const FileLimit limit(kFiles);
  std::latch resumed(1);
  net::IoThreads threads(2);
  threads.Start();
  const Address http{.host = {}, .unix_path = dir.path() / "http"};
  const auto server =
      HttpServer::Start(threads, http, Routes(), {.max_connections = kFiles / 4}).value();
  const auto acceptor =
      net::Acceptor::Listen({.host = {}, .unix_path = dir.path() / "grpc"}, {}).value();
  std::vector<net::Socket> callers;
  threads.RunOn(0, [&](net::EpollLoop& loop) {
    acceptor->Start(loop, [&](net::Socket socket) { callers.push_back(std::move(socket)); });
  });

  threads.loop(1).Post([&] { resumed.wait(); });
  child.Connect(http.unix_path, kFiles);
  child.Connect(acceptor->address().unix_path, kCallers);
  EXPECT_TRUE(test::WaitUntil(10s, [&] {
    std::size_t count = 0;
    threads.RunOn(0, [&](net::EpollLoop&) { count = callers.size(); });
    return count == kCallers;
  }));
  EXPECT_LE(server->connections(), kFiles / 4U);
  resumed.count_down();
  HttpClient client(http);
  client.Send(kGetHealth);
  EXPECT_THAT(client.ReadUntil("ok\n"), HasSubstr("200 OK"));
  threads.RunOn(0, [&](net::EpollLoop&) { acceptor->Stop(); });
  EXPECT_EQ(log.text(), "") << "no connection was refused";
}

}  // namespace
}  // namespace sluice
