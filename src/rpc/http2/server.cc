#include "rpc/http2/server.h"

#include <utility>

#include "rpc/http2/connection.h"

namespace sluice::rpc::http2 {

Result<std::unique_ptr<Server>> Server::Start(net::IoThreads& threads, Methods methods,
                                              const ServerOptions& options, const Times& times) {
  auto connections =
      net::ConnectionServer::Listen(threads, {.address = options.address,
                                              .socket_mode = options.socket_mode,
                                              .max_connections = options.max_connections,
                                              .tls = options.tls,
                                              .alpn = {.protocol = "\x02h2", .required = true}});
  if (!connections) return connections.error();
  return std::unique_ptr<Server>(
      new Server(threads, std::move(*connections),
                 std::unique_ptr<SharedState>(new SharedState{
                     .methods = std::move(methods), .options = options, .times = times})));
}

Server::Server(net::IoThreads& threads, std::unique_ptr<net::ConnectionServer> connections,
               std::unique_ptr<SharedState> shared)
    : threads_(threads), shared_(std::move(shared)), connections_(std::move(connections)) {
  shards_.resize(threads.size());
  threads_.RunOnEach([this](net::EpollLoop& loop) {
    shards_[loop.index()] = std::make_unique<Shard>(*shared_, loop);
  });
  connections_->Start(
      {.make =
           [this](net::EpollLoop& loop, net::TransportPtr transport, bool has_place) {
             return MakeConnection(*shards_[loop.index()], std::move(transport), has_place);
           },
       .on_refused = [this] { shared_->metrics.Count(Refusal::kConnections); },
       .on_replaced = [this] { shared_->metrics.Count(Refusal::kReplaced); }});
}

// Handlers may own timers of their loops, so they are destroyed on the loops' threads.
Server::~Server() {
  Stop(Duration(0));
  threads_.RunOnEach([this](net::EpollLoop& loop) { shards_[loop.index()].reset(); });
}

// The server is quiet if no unary call is open and none has begun since the last poll. Streams do
// not matter.
void Server::Stop(Duration drain) {
  connections_->Stop(drain, [this, before = UnaryCalls()]() mutable {
    const CallCounts now = UnaryCalls();
    return std::exchange(before, now).begun == now.begun && now.begun == now.ended;
  });
}

CallCounts Server::UnaryCalls() {
  CallCounts sum;
  threads_.RunOnEach([&](net::EpollLoop& loop) {
    const CallCounts& calls = shards_[loop.index()]->state().unary_calls();
    sum.begun += calls.begun;
    sum.ended += calls.ended;
  });
  return sum;
}

}  // namespace sluice::rpc::http2
