// A single connection: pipelining, slow handlers, slow and impatient clients.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/notification.h"
#include "http/http_connection.h"
#include "tests/http/http_fixture.h"
#include "tests/support/manual_loop.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

std::string Get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

int Count(const std::string& text, std::string_view part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// A route whose requests wait until the test answers them.
class SlowRoute {
 public:
  HttpHandler handler() {
    return [this](const HttpRequest& request, HttpResponder responder) {
      const MutexLock lock(mutex_);
      waiting_.push_back({request.query, std::move(responder)});
    };
  }

  std::size_t waiting() {
    const MutexLock lock(mutex_);
    return waiting_.size();
  }

  // Answers the first request with its query, on the calling thread.
  void Answer() {
    Waiting first = Take();
    first.responder({.body = first.query + "\n"});
  }
  void Drop() { Take(); }

 private:
  struct Waiting {
    std::string query;
    HttpResponder responder;
  };

  Waiting Take() {
    const MutexLock lock(mutex_);
    Waiting first = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return first;
  }

  Mutex mutex_;
  std::vector<Waiting> waiting_ SLUICE_GUARDED_BY(mutex_);
};

class HttpConnection_Test : public HttpServerTest {
 protected:
  std::vector<HttpRoute> Routes() {
    return {{"/", AnsweredBy([] { return HttpResponse{.body = "ok\n"}; })},
            {"/slow", slow_.handler()},
            {"/echo",
             [](const HttpRequest& request, const HttpResponder& respond) {
               respond({.body = request.body + "\n"});
             },
             {"POST"}},
            {"/big", AnsweredBy([] { return HttpResponse{.body = std::string(8'000'000, 'x')}; })}};
  }

  SlowRoute slow_;
};

TEST_F(HttpConnection_Test, Connection_IsKeptForTheNextRequest) {
  Start(Routes());
  HttpClient client(address_);
  for (int i = 0; i < 3; ++i) {
    client.Send(kGet);
    EXPECT_THAT(client.ReadUntil("ok\n"), HasSubstr("200 OK"));
  }
}

TEST_F(HttpConnection_Test, PipelinedRequests_AreAnsweredInTheirOrder) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(Get("/slow?1") + Get("/nowhere") + Get("/slow?2") + std::string(kGet));
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  slow_.Answer();
  EXPECT_THAT(client.ReadUntil("not found\n"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\n\r\n1\nHTTP/1.1 404")));
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  slow_.Answer();
  EXPECT_THAT(client.ReadUntil("ok\n"), HasSubstr("\r\n\r\n2\nHTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpConnection_Test, PipelinedRequests_ClientDoesNotRead_AreHeldBack) {
  constexpr int kRequests = 20'000;
  std::atomic<int> handled = 0;
  Start({{"/", AnsweredBy([&] {
            ++handled;
            return HttpResponse{.body = std::string(1'000, 'x')};
          })}});
  HttpClient client(address_);
  std::jthread sender([&] {
    std::string all;
    for (int i = 0; i < kRequests; ++i) all += kGet;
    client.Send(all + Get("/last"));
  });
  ASSERT_TRUE(Eventually([&] { return handled >= 100; }));
  for (int i = 0; i < 20; ++i) threads_.RunOnEach([](net::EpollLoop&) {});
  EXPECT_LT(handled, 2'000)
      << "answers fill 64 KB in the connection, 64 KB in the transport, and the kernel's buffers";
  EXPECT_EQ(Count(client.ReadUntil("not found\n"), "HTTP/1.1 200 OK"), kRequests);
  EXPECT_EQ(handled, kRequests);
}

TEST_F(HttpConnection_Test, SlowHandler_MayAnswerFromAnyThread) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(Get("/slow?7"));
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  HttpClient other(address_);
  other.Send(kGet);
  EXPECT_THAT(other.ReadUntil("ok\n"), HasSubstr("200 OK"))
      << "meanwhile, other clients are served";
  std::jthread([&] { slow_.Answer(); }).join();
  EXPECT_THAT(client.ReadUntil("7\n"), HasSubstr("200 OK"));
}

TEST_F(HttpConnection_Test, HandlerDropsItsResponder_ClientGets503) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(Get("/slow"));
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  slow_.Drop();
  EXPECT_THAT(client.ReadUntil("busy\n"), StartsWith("HTTP/1.1 503 Service Unavailable"));
  client.Send(kGet);
  EXPECT_THAT(client.ReadUntil("ok\n"), HasSubstr("200 OK"));
}

TEST_F(HttpConnection_Test, ClientOrServerIsGone_LaterAnswerIsDropped) {
  Start(Routes());
  {
    HttpClient client(address_);
    client.Send(Get("/slow?1"));
    ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  }
  ASSERT_TRUE(Eventually([&] { return server_->connections() == 0; }));
  HttpClient client(address_);
  client.Send(Get("/slow?2"));
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 2; }));
  slow_.Answer();
  server_.reset();
  EXPECT_EQ(client.ReadAll(), "");
  threads_.Stop();
  slow_.Answer();
}

TEST_F(HttpConnection_Test, HalfCloseByTheClient_AnswersStillArrive) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(Get("/slow?1") + std::string(kGet));
  client.FinishSending();
  ASSERT_TRUE(Eventually([&] { return slow_.waiting() == 1; }));
  slow_.Answer();
  const std::string all = client.ReadAll();
  EXPECT_THAT(all, HasSubstr("\r\n\r\n1\nHTTP/1.1 200 OK"));
  EXPECT_THAT(all, EndsWith("ok\n"));
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpConnection_Test, HalfCloseWithinARequest_ConnectionIsClosed) {
  Start(Routes());
  HttpClient client(address_);
  client.Send("GET / HT");
  client.FinishSending();
  EXPECT_EQ(client.ReadAll(), "");
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HttpConnection_Test, BodyIsRefused_ClientGetsTheAnswerEvenIfItSendsMore) {
  Start(Routes());
  for (int i = 0; i < 20; ++i) {
    HttpClient client(address_);
    client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
    client.Send(std::string(300'000, 'x'));
    EXPECT_THAT(client.ReadUntil("\r\n\r\n"), StartsWith("HTTP/1.1 413 Payload Too Large"));
  }
}

TEST_F(HttpConnection_Test, RefusedClientKeepsSending_ConnectionIsClosed) {
  Start(Routes());
  HttpClient client(address_);
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  const std::string piece(64 * 1024, 'x');
  std::size_t sent = 0;
  while (sent < 16 * net::Transport::kMaxDiscarded && client.Send(piece)) sent += piece.size();
  EXPECT_LT(sent, 3 * net::Transport::kMaxDiscarded);  // the kernel's buffers hold some bytes
}

TEST_F(HttpConnection_Test, Expect100_IsAnsweredBeforeTheBody) {
  Start(Routes());
  HttpClient client(address_);
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("body");
  EXPECT_THAT(client.ReadUntil("body\n"), StartsWith("HTTP/1.1 200 OK"));
}

TEST_F(HttpConnection_Test, RequestArrivesTooSlowly_IsAnsweredWith408) {
  Start(Routes(), {.request_time = 30ms});
  for (const std::string part :
       {"G", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo"}) {
    HttpClient client(address_);
    client.Send(part);
    EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout"));
  }
  EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
}

// Single bytes that arrive now and then do not extend the time for a request.
TEST_F(HttpConnection_Test, RequestByteByByte_TimeoutIsNotExtended) {
  Start(Routes(), {.request_time = 100ms});
  HttpClient client(address_);
  const SteadyTime began = SteadyNow();
  std::atomic<bool> stop = false;
  std::jthread dripping([&] {
    for (int i = 0; !stop && client.Send("x"); ++i) {
      test::WaitUntil(5ms, [] { return false; });
    }
  });
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 408 Request Timeout"));
  stop = true;
  EXPECT_LT(SteadyNow() - began, 8s);
}

TEST_F(HttpConnection_Test, IdleConnection_IsClosed) {
  Start(Routes(), {.idle_time = 30ms});
  HttpClient silent(address_);
  EXPECT_EQ(silent.ReadAll(), "");
  HttpClient served(address_);
  served.Send(kGet);
  EXPECT_THAT(served.ReadAll(), EndsWith("ok\n"));
}

TEST_F(HttpConnection_Test, Connection_TooOld_IsClosedAfterItsNextAnswer) {
  Start(Routes(), {.max_connection_age = 1h});
  HttpClient young(address_);
  young.Send(kGet);
  EXPECT_THAT(young.ReadUntil("ok\n"), HasSubstr("Connection: keep-alive"));
  server_.reset();
  Start(Routes(), {.max_connection_age = 1ms});
  HttpClient old(address_);
  std::string all;
  ASSERT_TRUE(Eventually([&] {
    old.Send(kGet);
    all = old.ReadUntil("ok\n");
    return all.find("Connection: close") != std::string::npos;
  }));
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_EQ(old.ReadAll(), "");
}

TEST_F(HttpConnection_Test, ClientDoesNotReadItsAnswer_ConnectionIsClosed) {
  Start(Routes(), {.answer_time = 50ms});
  for (const std::string connection : {"keep-alive", "close"}) {
    HttpClient client(address_);
    client.Send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: " + connection + "\r\n\r\n");
    ASSERT_TRUE(Eventually([&] { return server_->connections() == 1; }));
    EXPECT_TRUE(Eventually([&] { return server_->connections() == 0; }));
    EXPECT_LT(client.ReadAll().size(), 8'000'000U);
  }
}

TEST_F(HttpConnection_Test, BigAnswer_ArrivesWhole) {
  Start(Routes());
  HttpClient client(address_);
  client.Send("GET /big HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = client.ReadAll();
  EXPECT_EQ(all.size() - all.find("\r\n\r\n") - 4, 8'000'000U);
}

// Large requests are slow to parse. Many at once must not delay other connections.
TEST_F(HttpConnection_Test, ManyLargeRequestsAtOnce_EachIterationHandlesOne) {
  constexpr std::size_t kBody = 8'000, kClients = 20;
  Mutex mutex;
  std::map<std::pair<net::Loop*, SteadyTime>, std::size_t> bytes;  // by iteration
  Start({{.path = "/",
          .handler =
              [&](const HttpRequest& request, const HttpResponder& respond) {
                net::Loop* const loop = net::Loop::Current();
                {
                  const MutexLock lock(mutex);
                  bytes[{loop, loop->now()}] += request.body.size();
                }
                respond({.body = "done"});
              },
          .methods = {"POST"}}});
  std::vector<HttpClient> clients;
  for (std::size_t i = 0; i < kClients; ++i) clients.emplace_back(address_);
  ASSERT_TRUE(Eventually([&] { return server_->connections() == kClients; }));
  Notification release;
  for (std::size_t i = 0; i < 2; ++i) threads_.loop(i).Post([&] { release.Wait(); });
  for (HttpClient& client : clients) {
    client.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000\r\n\r\n" +
                std::string(kBody, 'x'));
  }
  release.Notify();
  for (HttpClient& client : clients) {
    EXPECT_THAT(client.ReadUntil("done"), EndsWith("done"));
  }
  threads_.RunOnEach([](net::EpollLoop&) {});  // so that no loop still waits for `release`
  const MutexLock lock(mutex);
  for (const auto& [iteration, size] : bytes) EXPECT_EQ(size, kBody);
}

// Such a connection ends in the next iteration, so it must not count as one that waits for its
// client.
TEST(HttpConnectionTest, ClientClosesAfterItsAnswer_ConnectionIsIdle_WithoutARequestUnused) {
  using enum net::Occupant::State;
  for (const bool asks : {true, false}) {
    test::ManualLoop loop;
    HttpState shared{.router = Router({{"/", AnsweredBy([] { return HttpResponse{}; })}}),
                     .options = {},
                     .loops = 1};
    HttpLoopState state(shared, loop, [] {});
    net::TransportPtr wire(new test::ManualLoop::Wire(loop, net::FlushStage::kCallers), {&loop});
    HttpConnection connection(state, std::move(wire), /*has_place=*/true);
    loop.RunIteration([&] {
      connection.Start();
      if (asks) loop.wire()->Receive(kGet.substr(0, 9));
    });
    EXPECT_EQ(connection.AsOccupant().state, asks ? kStuck : kUnused);
    loop.RunIteration([&] {
      if (asks) loop.wire()->Receive(kGet.substr(9));
      static_cast<net::Protocol&>(connection).OnClosed(net::Protocol::Closure::kEndOfInput, "");
    });
    EXPECT_EQ(connection.AsOccupant().state, asks ? kIdle : kUnused);
  }
}

}  // namespace
}  // namespace sluice
