// Listens on an address: one socket, or one for each address that a host name stands for. Accepts
// on one loop; what becomes of a connection is the owner's decision.
//
// Listen and the destructor on any thread while no loop runs it; the rest on the loop's thread.
#pragma once

#include <functional>
#include <memory>
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
    // Of a unix socket: only processes of this user may connect.
    bool private_socket = false;
    Resolver::Lookup lookup = Resolver::SystemLookup;
  };

  // Binds and listens: from then on callers can connect, and wait. A host name is resolved, which
  // blocks; of its addresses, those that this machine lacks are left out. Fails with kUnavailable:
  // an address is in use or not allowed.
  static Result<std::unique_ptr<Acceptor>> Listen(const Address& address, const Options& options);

  // As Stop.
  ~Acceptor();

  // Where it listens, with the port really bound.
  const Address& address() const { return address_; }

  // Accepts connections from now on. `loop` must outlive the acceptor's Stop.
  void Start(EpollLoop& loop, OnConnection on_connection);

  // Closes the listening sockets and removes the file of a unix socket: another process may listen
  // there from now on. Callers that are not accepted yet are turned away.
  void Stop();

 private:
  static constexpr int kMaxPerTurn = 64;

  struct Listener final : EventHandler {
    Listener(Acceptor& the_owner, Socket the_socket)
        : owner(the_owner), socket(std::move(the_socket)) {}
    void OnEvents(std::uint32_t) override { owner.AcceptFrom(*this); }

    Acceptor& owner;
    Socket socket;
  };

  Acceptor(Address address, std::vector<Socket> sockets);
  void AcceptFrom(Listener& listener);
  void TurnAway(Listener& listener, int error);
  void SetWatching(bool watching);
  bool listening() const { return listeners_.front()->socket.is_open(); }
  void LogTurnedAway(int error);

  Address address_;
  std::vector<std::unique_ptr<Listener>> listeners_;  // at least one
  Socket reserve_;  // a descriptor to accept with, and close, when there are no others
  EpollLoop* loop_ = nullptr;
  std::unique_ptr<Timer> pause_;
  OnConnection on_connection_;
  std::uint64_t turned_away_ = 0;  // since the last log line
  SteadyTime next_log_{};
};

}  // namespace sluice::net
