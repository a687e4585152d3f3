// A listening socket. Accepts on one loop; what becomes of a connection is the owner's decision.
//
// Listen and the destructor on any thread while no loop runs it; the rest on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "net/epoll_loop.h"
#include "net/socket.h"

namespace sluice::net {

class Acceptor final : private EventHandler {
 public:
  using OnConnection = std::function<void(Socket)>;

  // Binds and listens: from then on callers can connect, and wait. A host name is resolved, which
  // blocks. `private_socket`: of a unix socket, only processes of this user may connect. Fails with
  // kUnavailable: the address is in use or not allowed.
  static Result<std::unique_ptr<Acceptor>> Listen(const Address& address,
                                                  bool private_socket = false);

  // As Stop.
  ~Acceptor() override;

  // Where it listens, with the port really bound.
  const Address& address() const { return address_; }

  // Accepts connections from now on. `loop` must outlive the acceptor's Stop.
  void Start(EpollLoop& loop, OnConnection on_connection);

  // Closes the listening socket and removes the file of a unix socket: another process may listen
  // there from now on. Callers that are not accepted yet are turned away.
  void Stop();

 private:
  static constexpr int kMaxPerTurn = 64;

  Acceptor(Address address, Socket socket);
  void OnEvents(std::uint32_t events) override;
  void TurnAway(int error);
  void LogTurnedAway(int error);

  Address address_;
  Socket socket_;
  Socket reserve_;  // a descriptor to accept with, and close, when there are no others
  EpollLoop* loop_ = nullptr;
  std::unique_ptr<Timer> pause_;
  OnConnection on_connection_;
  std::uint64_t turned_away_ = 0;  // since the last log line
  SteadyTime next_log_{};
};

}  // namespace sluice::net
