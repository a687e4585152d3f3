#include "http/http_server.h"

#include <utility>

#include "http/http_connections.h"
#include "net/acceptor.h"

namespace sluice {

struct HttpServer::State {
  State(net::IoThreads& io, std::vector<HttpRoute> routes, const HttpOptions& options)
      : threads(io),
        serving{.router = Router(std::move(routes)),
                .options = options,
                .limit = ConnectionLimit(options.max_connections, options.metrics)} {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      connections.push_back(std::make_unique<HttpConnections>(threads.loop(i), serving));
    }
  }

  // On the thread that accepts.
  void Place(net::Socket socket);

  net::IoThreads& threads;
  HttpServing serving;
  std::vector<std::unique_ptr<HttpConnections>> connections;  // by thread
  std::unique_ptr<net::Acceptor> acceptor;
  bool stopped = false;
};

void HttpServer::State::Place(net::Socket socket) {
  struct Arrival {
    net::Socket socket;
    net::IoThreads::Place place;
  };
  auto arrival = std::make_shared<Arrival>(
      Arrival{.socket = std::move(socket), .place = threads.PlaceConnection()});
  net::EpollLoop& loop = arrival->place.loop();
  HttpConnections& there = *connections[loop.index()];
  if (&loop == net::Loop::Current()) {
    return there.Add(std::move(arrival->socket), std::move(arrival->place));
  }
  loop.Post(
      [arrival, &there] { there.Add(std::move(arrival->socket), std::move(arrival->place)); });
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(net::IoThreads& threads,
                                                      const Address& address,
                                                      std::vector<HttpRoute> routes,
                                                      const HttpOptions& options) {
  auto acceptor = net::Acceptor::Listen(address);
  if (!acceptor) return Error{ErrorCode::kUnavailable, "HTTP: " + acceptor.error().message};
  auto state = std::make_unique<State>(threads, std::move(routes), options);
  state->acceptor = std::move(acceptor).value();
  threads.RunOn(0, [&state = *state](net::EpollLoop& loop) {
    state.acceptor->Start(loop, [&state](net::Socket socket) { state.Place(std::move(socket)); });
  });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { Stop(); }

// What was accepted before is posted before: each thread closes it, too.
void HttpServer::Stop() {
  if (std::exchange(state_->stopped, true)) return;
  state_->threads.RunOn(0, [this](net::EpollLoop&) { state_->acceptor->Stop(); });
  state_->threads.RunOnEach(
      [this](net::EpollLoop& loop) { state_->connections[loop.index()]->CloseAll(); });
  // What they dispose of is destroyed before what it uses.
  state_->threads.RunOnEach([](net::EpollLoop&) {});
}

const Address& HttpServer::address() const { return state_->acceptor->address(); }

std::size_t HttpServer::connections() const { return state_->serving.limit.open(); }

std::uint64_t HttpServer::refused() const { return state_->serving.limit.refused(); }

}  // namespace sluice
