// Connections between an io thread's loop and its peers: bytes arrive in order, in pieces of any
// size, late, or not at all if the connection is cut.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "net/socket.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

// The other end of a connection.
class Remote {
 public:
  virtual ~Remote() = default;
  virtual void Receive(std::string_view bytes) = 0;
  virtual void OnClosed() = 0;
};

// How a connection behaves.
struct LinkOptions {
  Duration least_delay{};
  Duration most_delay{};
  bool splits = false;  // bytes arrive in pieces, perhaps one by one
  int from = 0;         // the number of the server that connects
};

class Wire;

// A connection. Both ends own it; closing one end ends the connection for the other, too.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(World& world, const LinkOptions& options) : world_(world), options_(options) {}

  // Delivers the bytes that arrived before `wire` joined. A kernel keeps such bytes, too.
  void Join(Wire* wire);
  void Join(Remote* remote) { remote_ = remote; }

  // Sends bytes from one end to the other.
  void ToRemote(std::string_view bytes);
  void ToWire(std::string_view bytes);

  // Closes the connection at both ends at once. Bytes in flight are lost.
  void Cut();
  // Closes one end. The other end is notified after all bytes sent before have arrived.
  void CloseWire();
  void CloseRemote();

  const LinkOptions& options() const { return options_; }
  bool open() const { return wire_ != nullptr && remote_ != nullptr; }

 private:
  using Deliver = std::function<void(Link&, std::string_view)>;
  void Send(std::string_view bytes, SteadyTime& arrived, const Deliver& deliver);
  SteadyTime NextArrival(SteadyTime& arrived);

  World& world_;
  const LinkOptions options_;
  Wire* wire_ = nullptr;
  std::optional<std::string> early_ = "";  // arrived before a wire joined; absent afterward
  Remote* remote_ = nullptr;
  SteadyTime at_remote_{};  // when the last bytes arrive
  SteadyTime at_wire_{};
};

// Connects a loop to a peer. Returns null if the attempt gets no answer until it times out, and a
// link without a remote end if the attempt is refused.
using Connector = std::function<std::shared_ptr<Link>(const Address&)>;

class SimulatedLoop final : public net::Loop {
 public:
  SimulatedLoop(World& world, Connector connector);
  ~SimulatedLoop() override;

  // Runs no iterations for this long, as if another process had the core.
  void Stall(Duration duration);

  // Queues bytes, or an event of a connection, for the next iteration.
  void Deliver(Task task);

  // Runs `task` now, in a separate iteration.
  void Run(const Task& task);

  void Post(Task task) override { Deliver(std::move(task)); }
  net::TransportPtr Adopt(net::Socket, net::FlushStage) override { return {}; }
  std::unique_ptr<net::ConnectAttempt> Connect(const Address& address, Duration connect_timeout,
                                               net::FlushStage stage,
                                               net::ConnectDone done) override;

  // The loop's end of `link`.
  net::TransportPtr Carry(std::shared_ptr<Link> link, net::FlushStage stage);

 private:
  void Wake(SteadyTime at);
  void RunIteration(const Task& work);

  World& world_;
  const Connector connector_;
  std::vector<Task> ready_;
  SteadyTime next_turn_ = SteadyTime::max();
  SteadyTime stalled_until_{};
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// The loop's end of a connection.
class Wire final : public net::Transport {
 public:
  Wire(SimulatedLoop& loop, std::shared_ptr<Link> link, net::FlushStage stage);
  ~Wire() override { Close(); }

  // Bytes from the link. The protocol receives them in an iteration of the loop.
  void Receive(std::string_view bytes);
  void OnClosed(net::Protocol::Closure closure);

  void Start(net::Protocol& protocol) override;
  void RequestFlush() override { loop_.RequestFlush(*this); }
  void SetReading(bool reading) override;
  void FinishSending() override;
  void Close() override;
  std::size_t unsent() const override { return 0; }
  bool HasUnreadInput() const override { return !arrived_.empty(); }
  const net::Peer& peer() const override { return peer_; }

 private:
  // Bytes and events in the order of arrival.
  struct Arrived {
    std::string bytes;
    bool closed = false;
    net::Protocol::Closure closure{};
  };

  void Hear(Arrived arrived);
  void Deliver();
  void Flush() override;

  SimulatedLoop& loop_;
  std::shared_ptr<Link> link_;
  net::Protocol* protocol_ = nullptr;
  std::vector<Arrived> arrived_;
  bool reading_ = true;
  bool handing_over_ = false;
  const net::Peer peer_{.address = "simulated", .tls = false, .identities = {}};
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace sluice::simulation
