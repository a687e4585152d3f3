// Serves connections on an address: accepts them on io-0, assigns each to the least busy io thread,
// bounds their number, and ends them when the server stops.
//
// All functions except count() and on() are called by one owner, not on an io thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/acceptor.h"
#include "net/io_threads.h"
#include "net/loop_connections.h"
#include "net/tls_context.h"

namespace sluice::net {

class ConnectionServer {
 public:
  struct Options {
    Address address;
    std::optional<mode_t> socket_mode = std::nullopt;  // as Acceptor::Options
    std::size_t max_connections = 0;
    const TlsServerContext* tls = nullptr;  // null disables TLS
    Alpn alpn = {};
  };

  // Called on io threads.
  struct Callbacks {
    std::function<std::unique_ptr<ServedConnection>(EpollLoop&, TransportPtr, bool has_place)> make;
    std::function<void()> on_refused;   // a connection gets no place
    std::function<void()> on_replaced;  // a connection is closed to make room
  };

  // Listens; connections wait in the kernel until Start. `threads` must be running and must outlive
  // the server. Fails with kUnavailable if it cannot listen on the address.
  static Result<std::unique_ptr<ConnectionServer>> Listen(IoThreads& threads,
                                                          const Options& options);

  void Start(Callbacks callbacks);

  // Keeps serving until no connection is open or `is_quiet` (called every 50 ms) returns true, for
  // at most half of `drain`. In this time, clients that notice the shutdown can disconnect by
  // themselves. Then stops listening, drains all connections, and closes those still open after
  // `drain`. Returns when no connection is left.
  void Stop(Duration drain, const std::function<bool()>& is_quiet);

  // The listening address, with the actual port.
  const Address& address() const { return acceptor_->address(); }

  // Thread-safe.
  const ConnectionCount& count() const { return count_; }

  // The connections of an io thread. Loop thread only.
  LoopConnections& on(const Loop& loop) { return *by_loop_[loop.index()]; }

 private:
  // An accepted connection that is not yet added to a loop.
  struct Arrival {
    Socket socket;
    LoopAssignment assignment;
    bool has_place = true;
    std::size_t turned_away = 0;  // how often a loop could not make room; each loop tries twice
  };

  ConnectionServer(IoThreads& threads, const Options& options, std::unique_ptr<Acceptor> acceptor);

  void OnConnection(Socket socket);
  void Deliver(Arrival arrival);
  void Add(Arrival arrival);

  IoThreads& threads_;
  const Options options_;
  const std::unique_ptr<Acceptor> acceptor_;
  ConnectionCount count_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<LoopConnections>> by_loop_;
  std::atomic<std::size_t> arriving_ = 0;  // posted to a loop
  std::atomic<bool> closed_ = false;       // later arrivals are dropped
};

}  // namespace sluice::net
