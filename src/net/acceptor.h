// Listens on an address and accepts connections on one loop. A host name gets one socket for each
// of its addresses. The owner decides what to do with a connection.
//
// Loop thread only. Exceptions: Listen, address, and the destructor after the loop has stopped.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/epoll_loop.h"
#include "net/resolver.h"
#include "net/socket.h"

namespace sluice::net {

class Acceptor {
 public:
  using OnConnection = std::function<void(Socket)>;

  struct Options {
    // The permissions of a unix socket's file. Connecting requires write permission. If absent, the
    // umask applies.
    std::optional<mode_t> socket_mode = std::nullopt;
    Resolver::Lookup lookup = Resolver::SystemLookup;
  };

  // Binds and listens. Connections wait in the kernel until Start. Resolving a host name blocks;
  // addresses that this machine does not have are skipped. Fails with kUnavailable, for example if
  // an address is in use or not permitted.
  static Result<std::unique_ptr<Acceptor>> Listen(const Address& address, const Options& options);

  // Calls Stop.
  ~Acceptor();

  // The listening address, with the actual port.
  const Address& address() const { return address_; }

  // Starts to accept connections. `loop` must outlive the call of Stop.
  void Start(EpollLoop& loop, OnConnection on_connection);

  // Closes the listening sockets and removes the file of a unix socket, so that another process can
  // listen there. The kernel rejects connections that are not accepted yet.
  void Stop();

 private:
  // More would delay the answers on open connections while many connections arrive; fewer would let
  // arriving connections wait too long (tests/siege/idle_connections.py).
  static constexpr int kMaxPerIteration = 16;

  struct Listener final : EventHandler {
    Listener(Acceptor& the_owner, Socket the_socket)
        : owner(the_owner), socket(std::move(the_socket)) {}
    void OnEvents(std::uint32_t) override { owner.AcceptFrom(*this); }

    Acceptor& owner;
    Socket socket;
  };

  Acceptor(Address address, std::vector<Socket> sockets);
  void AcceptFrom(Listener& listener);
  void RejectConnections(Listener& listener, int error);
  void SetWatching(bool watching);
  bool listening() const { return listeners_.front()->socket.is_open(); }

  Address address_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // at least one
  Socket reserve_;  // freed to accept and close a connection if no other descriptor is left
  EpollLoop* loop_ = nullptr;
  std::unique_ptr<Timer> pause_;
  OnConnection on_connection_;
  std::uint64_t turned_away_ = 0;  // since the last log line
  SteadyTime next_log_{};
};

}  // namespace sluice::net
