#include "http/http_server.h"

#include <algorithm>
#include <utility>

#include "http/http_connections.h"
#include "net/acceptor.h"

namespace sluice {
namespace {

// After this time without requests, callers count as gone.
constexpr std::chrono::milliseconds kQuiet(50);

void WaitUntilQuiet(HttpServing& serving, SteadyTime deadline) {
  std::uint64_t before = serving.requests;
  while (SteadyNow() < deadline) {
    if (serving.limit.WaitForNone(std::min(deadline, SteadyNow() + kQuiet))) return;
    const std::uint64_t now = serving.requests;
    if (std::exchange(before, now) == now) return;
  }
}

}  // namespace

struct HttpServer::State {
  State(net::IoThreads& threads, std::vector<HttpRoute> routes, const HttpOptions& options)
      : serving{.threads = threads,
                .router = Router(std::move(routes)),
                .options = options,
                .limit = ConnectionLimit(options.max_connections, options.metrics),
                .by_thread = {}} {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      serving.by_thread.push_back(std::make_unique<HttpConnections>(threads.loop(i), serving));
    }
  }

  HttpServing serving;
  std::unique_ptr<net::Acceptor> acceptor;
  bool stopped = false;
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(net::IoThreads& threads,
                                                      const Address& address,
                                                      std::vector<HttpRoute> routes,
                                                      const HttpOptions& options) {
  auto acceptor = net::Acceptor::Listen(address, {});
  if (!acceptor) return Error{ErrorCode::kUnavailable, "http.listen: " + acceptor.error().message};
  auto state = std::make_unique<State>(threads, std::move(routes), options);
  state->acceptor = std::move(acceptor).value();
  threads.RunOn(0, [&state = *state](net::EpollLoop& loop) {
    state.acceptor->Start(loop, [&serving = state.serving](net::Socket socket) {
      HttpConnections::Deliver(
          serving, {.socket = std::move(socket), .place = serving.threads.PlaceConnection()});
    });
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { Stop(Duration::zero()); }

void HttpServer::Stop(Duration drain) {
  if (std::exchange(state_->stopped, true)) return;
  HttpServing& serving = state_->serving;
  const SteadyTime deadline = SteadyNow() + drain;
  WaitUntilQuiet(serving, deadline - drain / 2);
  serving.threads.RunOn(0, [this](net::EpollLoop&) { state_->acceptor->Stop(); });
  if (drain.count() > 0) {
    serving.threads.RunOnEach(
        [&](net::EpollLoop& loop) { serving.by_thread[loop.index()]->Drain(); });
    serving.limit.WaitForNone(deadline);
  }
  serving.threads.RunOnEach(
      [&](net::EpollLoop& loop) { serving.by_thread[loop.index()]->CloseAll(); });
  // Waits until posted connections have arrived and closed ones are destroyed.
  serving.threads.RunOnEach([](net::EpollLoop&) {});
}

const Address& HttpServer::address() const { return state_->acceptor->address(); }

std::size_t HttpServer::connections() const { return state_->serving.limit.open(); }

std::uint64_t HttpServer::refused() const { return state_->serving.limit.refused(); }

}  // namespace sluice
