#include "http/http_server.h"

#include <utility>

#include "http/http_connection.h"
#include "http/http_state.h"
#include "net/connection_server.h"

namespace sluice {
namespace {

constexpr net::Alpn kAlpn{.protocol = "\x08http/1.1"};

}  // namespace

struct HttpServer::State {
  State(net::IoThreads& threads, std::vector<HttpRoute> routes, const HttpOptions& options,
        std::unique_ptr<net::ConnectionServer> the_connections)
      : shared{.router = Router(std::move(routes)),
               .options = options,
               .loops = threads.size(),
               .metrics = HttpMetrics(options.max_connections, *options.metrics)},
        connections(std::move(the_connections)) {
    for (std::size_t i = 0; i < threads.size(); ++i) {
      net::Loop& loop = threads.loop(i);
      by_loop.push_back(
          std::make_unique<HttpLoopState>(shared, loop, [this, &loop] { FreeMemory(loop); }));
    }
    connections->Start(
        {.make =
             [this](net::EpollLoop& loop, net::TransportPtr transport, bool has_place) {
               return std::make_unique<HttpConnection>(*by_loop[loop.index()], std::move(transport),
                                                       has_place);
             },
         .on_refused = [this] { shared.metrics.OnRefused(); },
         .on_replaced = [this] { shared.metrics.OnReplaced(); }});
  }

  // Frees an eighth, so that the next bytes do not exceed the limit again at once.
  void FreeMemory(const net::Loop& loop) {
    const HttpLoopState& state = *by_loop[loop.index()];
    net::LoopConnections& open = connections->on(loop);
    for (net::ServedConnection* const it : open.Victims(0, open.all().size())) {
      if (state.buffered() <= state.max_buffered() - state.max_buffered() / 8) return;
      if (static_cast<HttpConnection*>(it)->holds_bytes()) open.CloseForRoom(*it);
    }
  }

  HttpState shared;
  std::vector<std::unique_ptr<HttpLoopState>> by_loop;
  const std::unique_ptr<net::ConnectionServer> connections;
  bool stopped = false;
};

Result<std::unique_ptr<HttpServer>> HttpServer::Start(net::IoThreads& threads,
                                                      const Address& address,
                                                      std::vector<HttpRoute> routes,
                                                      const HttpOptions& options) {
  auto connections =
      net::ConnectionServer::Listen(threads, {.address = address,
                                              .max_connections = options.max_connections,
                                              .tls = options.tls,
                                              .alpn = kAlpn});
  if (!connections) return Error{ErrorCode::kUnavailable, connections.error().message};
  return std::unique_ptr<HttpServer>(new HttpServer(
      std::make_unique<State>(threads, std::move(routes), options, std::move(*connections))));
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}

HttpServer::~HttpServer() { Stop(Duration::zero()); }

void HttpServer::Stop(Duration drain) {
  if (std::exchange(state_->stopped, true)) return;
  state_->connections->Stop(drain, [&requests = state_->shared.requests,
                                    before = state_->shared.requests.load()]() mutable {
    const std::uint64_t now = requests;
    return std::exchange(before, now) == now;
  });
}

const Address& HttpServer::address() const { return state_->connections->address(); }

std::size_t HttpServer::connections() const { return state_->connections->count().open(); }

}  // namespace sluice
