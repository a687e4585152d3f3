#include "net/connection_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "net/tls_transport.h"

namespace sluice::net {
namespace {

// How many connections may be posted to loops when there is no place left. Without this bound,
// connections that wait for a slow loop could use up the process' open files.
constexpr std::size_t kMostArriving = 64;

constexpr std::chrono::milliseconds kQuiet(50);

}  // namespace

Result<std::unique_ptr<ConnectionServer>> ConnectionServer::Listen(IoThreads& threads,
                                                                   const Options& options) {
  auto acceptor = Acceptor::Listen(options.address, {.socket_mode = options.socket_mode});
  if (!acceptor) return acceptor.error();
  return std::unique_ptr<ConnectionServer>(
      new ConnectionServer(threads, options, std::move(*acceptor)));
}

ConnectionServer::ConnectionServer(IoThreads& threads, const Options& options,
                                   std::unique_ptr<Acceptor> acceptor)
    : threads_(threads),
      options_(options),
      acceptor_(std::move(acceptor)),
      count_(options.max_connections) {}

void ConnectionServer::Start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    by_loop_.push_back(
        std::make_unique<LoopConnections>(threads_.loop(i), count_, callbacks_.on_replaced));
  }
  threads_.RunOn(0, [this](EpollLoop& loop) {
    acceptor_->Start(loop, [this](Socket socket) { OnConnection(std::move(socket)); });
  });
}

void ConnectionServer::Stop(Duration drain, const std::function<bool()>& is_quiet) {
  const SteadyTime deadline = SteadyNow() + drain;
  const SteadyTime half = deadline - drain / 2;
  while (SteadyNow() < half &&
         !count_.WaitForNone(std::min<SteadyTime>(half, SteadyNow() + kQuiet))) {
    if (is_quiet()) break;
  }
  threads_.RunOn(0, [this](EpollLoop&) { acceptor_->Stop(); });
  if (drain.count() > 0) {
    threads_.RunOnEach([this](EpollLoop& loop) { on(loop).Drain(); });
    count_.WaitForNone(deadline);
  }
  closed_ = true;
  threads_.RunOnEach([this](EpollLoop& loop) { on(loop).CloseAll(); });
  // Waits until posted connections have arrived, and the loops have destroyed the closed
  // connections.
  for (std::size_t i = 0; i <= threads_.size(); ++i) threads_.RunOnEach([](EpollLoop&) {});
}

// Runs on io-0. If too many connections are posted to other loops, only this loop tries to make
// room for the new connection.
void ConnectionServer::OnConnection(Socket socket) {
  const bool has_place = count_.TryAdd();
  const bool waits = !has_place && arriving_ >= kMostArriving;
  Deliver({.socket = std::move(socket),
           .assignment = waits ? threads_.AssignTo(0) : threads_.AssignConnection(),
           .has_place = has_place,
           .turned_away = waits ? 2 * threads_.size() - 1 : 0});
}

// Tasks must be copyable, so a shared pointer holds the arrival.
void ConnectionServer::Deliver(Arrival arrival) {
  EpollLoop& loop = arrival.assignment.loop();
  if (&loop == Loop::Current()) return Add(std::move(arrival));
  ++arriving_;
  loop.Post([this, posted = std::make_shared<Arrival>(std::move(arrival))] {
    --arriving_;
    Add(std::move(*posted));
  });
}

// Runs on the assigned loop. If no connection of this loop may be closed, the next loop tries to
// close one. The first round over all loops spares more connections (see MakeRoom), because the
// connections that should be closed first may be on other loops.
void ConnectionServer::Add(Arrival arrival) {
  EpollLoop& loop = arrival.assignment.loop();
  LoopConnections& connections = on(loop);
  if (closed_) {
    if (arrival.has_place) count_.Remove();
    return;
  }
  bool has_place = arrival.has_place || count_.TryAdd();
  const bool spares_more = arrival.turned_away < threads_.size();
  // Another loop may take the place that this loop has freed.
  while (!has_place && connections.MakeRoom(arrival.socket.Remote().Network(), spares_more)) {
    has_place = count_.TryAdd();
  }
  if (!has_place && arrival.turned_away + 1 < 2 * threads_.size()) {
    return Deliver({.socket = std::move(arrival.socket),
                    .assignment = threads_.AssignTo((loop.index() + 1) % threads_.size()),
                    .has_place = false,
                    .turned_away = arrival.turned_away + 1});
  }
  if (!has_place) callbacks_.on_refused();
  TransportPtr transport = loop.Adopt(std::move(arrival.socket), FlushStage::kCallers);
  if (options_.tls != nullptr) {
    transport = AcceptTls(loop, std::move(transport), *options_.tls, options_.alpn);
  }
  connections.Add(callbacks_.make(loop, std::move(transport), has_place),
                  std::move(arrival.assignment));
}

}  // namespace sluice::net
