#include "http/http_server.h"

#include <utility>

#include "http/http_connection.h"

namespace sluice {

Result<std::unique_ptr<HttpServer>> HttpServer::Start(net::IoThreads& threads,
                                                      const Address& address,
                                                      std::vector<HttpRoute> routes,
                                                      const HttpOptions& options) {
  auto connections =
      net::ConnectionServer::Listen(threads, {.address = address,
                                              .max_connections = options.max_connections,
                                              .tls = options.tls,
                                              .alpn = {.protocol = "\x08http/1.1"}});
  if (!connections) return connections.error();
  return std::unique_ptr<HttpServer>(
      new HttpServer(threads, std::move(routes), options, std::move(*connections)));
}

HttpServer::HttpServer(net::IoThreads& threads, std::vector<HttpRoute> routes,
                       const HttpOptions& options,
                       std::unique_ptr<net::ConnectionServer> connections)
    : shared_{.router = Router(std::move(routes)), .options = options, .loops = threads.size()},
      connections_(std::move(connections)) {
  for (std::size_t i = 0; i < threads.size(); ++i) {
    net::Loop& loop = threads.loop(i);
    by_loop_.push_back(
        std::make_unique<HttpLoopState>(shared_, loop, [this, &loop] { FreeMemory(loop); }));
  }
  connections_->Start(
      {.make =
           [this](net::EpollLoop& loop, net::TransportPtr transport, bool has_place) {
             return std::make_unique<HttpConnection>(*by_loop_[loop.index()], std::move(transport),
                                                     has_place);
           },
       .on_refused = [this] { shared_.metrics.OnRefused(); },
       .on_replaced = [this] { shared_.metrics.OnReplaced(); }});
}

HttpServer::~HttpServer() { Stop(Duration::zero()); }

// Frees an eighth of the limit, so that the next bytes do not exceed the limit again at once.
void HttpServer::FreeMemory(const net::Loop& loop) {
  const HttpLoopState& state = *by_loop_[loop.index()];
  net::LoopConnections& open = connections_->on(loop);
  for (net::ServedConnection* const it : open.Victims({.since = loop.now()}, open.all().size())) {
    if (state.buffered() <= state.max_buffered() - state.max_buffered() / 8) return;
    if (static_cast<HttpConnection*>(it)->holds_bytes()) open.CloseForRoom(*it);
  }
}

void HttpServer::Stop(Duration drain) {
  if (std::exchange(stopped_, true)) return;
  connections_->Stop(drain, [this, before = shared_.requests.load()]() mutable {
    const std::uint64_t now = shared_.requests;
    return std::exchange(before, now) == now;
  });
}

}  // namespace sluice
