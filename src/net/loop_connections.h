// The connections of a server. ConnectionCount counts the connections on all loops. LoopConnections
// owns the connections on one loop, and chooses which to close to make room for a new connection or
// to free memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "net/io_threads.h"
#include "net/loop.h"
#include "net/transport.h"

namespace sluice::net {

// A connection that has one of the server's places.
struct Occupant {
  enum class State : std::uint8_t {
    kBusy,    // its peer waits for an answer; never chosen
    kIdle,    // its peer has no request now, but had one before
    kUnused,  // its peer has not sent a request yet
    kStuck,   // its peer does not complete a request, or does not read an answer
  };
  State state = State::kIdle;
  SteadyTime since;         // in this state
  std::size_t places = 0;   // its network's connections on all loops; see Peer::network
  std::size_t waiting = 0;  // its network's connections on this loop that wait for their peers

  bool waits_for_peer() const { return state == State::kUnused || state == State::kStuck; }
};

// Returns the indices of at most `count` occupants to close, in the order to close them.
//
// Usually, occupants of networks with more than `share` places come before all others. Within these
// two groups, stuck occupants come first, then unused ones, then idle ones. Occupants of the same
// group and state are ordered by `since`, the oldest first, then by index. `newcomer` describes the
// new connection and its network. Networks with fewer places than `newcomer.places` are spared.
//
// If more than half of the occupants wait for their peers, only waiting occupants are chosen, in
// the order of `since`, the oldest first. An occupant is spared if its network has fewer waiting
// occupants than `newcomer.waiting`, or if its `since` is later than `newcomer.since`. So a proxy
// with many connections in use keeps them, even if many other addresses open connections without
// using them.
std::vector<std::size_t> ChooseVictims(std::span<const Occupant> occupants,
                                       const Occupant& newcomer, std::size_t share,
                                       std::size_t count);

// Counts a server's open connections that have a place. Thread-safe.
class ConnectionCount {
 public:
  // A network (Peer::network), and the number of its connections on all loops.
  using Network = std::pair<const std::string, std::atomic<std::size_t>>;

  explicit ConnectionCount(std::size_t max) : max_(max) {}

  // Counts a connection, or returns false if there is no place left.
  bool TryAdd();
  void Remove() SLUICE_EXCLUDES(mutex_);

  // Enter is called when a counted connection is added to a loop, and Leave when it is removed.
  Network& Enter(std::string_view network) SLUICE_EXCLUDES(mutex_);
  void Leave(Network& network) SLUICE_EXCLUDES(mutex_);
  // The number of a network's connections on all loops.
  std::size_t Of(std::string_view network) const SLUICE_EXCLUDES(mutex_);
  // The average number of connections per network, over all networks with connections.
  std::size_t share() const SLUICE_EXCLUDES(mutex_);

  std::size_t open() const { return open_.load(std::memory_order_relaxed); }

  // Waits until no connection is open. Returns false if one is still open at `deadline`.
  bool WaitForNone(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

 private:
  const std::size_t max_;
  std::atomic<std::size_t> open_ = 0;
  mutable Mutex mutex_;
  CondVar none_;
  std::unordered_map<std::string, std::atomic<std::size_t>> networks_ SLUICE_GUARDED_BY(mutex_);
};

class LoopConnections;

// A connection of a server. Loop thread only. Owned by a LoopConnections.
class ServedConnection : public Protocol, public Disposable {
 public:
  virtual void Start() = 0;

  // Lets open requests finish, then closes the connection.
  virtual void Drain() = 0;

  virtual Occupant AsOccupant() const = 0;

  // Closes the connection and its transport at once, and destroys it at the end of the iteration.
  // No callback follows.
  void Close();

  // Whether this connection has a place among the server's connections. Without a place, only
  // probes are answered, and the connection ends soon.
  bool has_place() const { return has_place_; }

 protected:
  // `max_age` is varied by up to ±10 %, so that clients that connected together do not reconnect
  // together. If it is zero, there is no maximum. `no_place_time`: the life of a connection without
  // a place.
  ServedConnection(Loop& loop, TransportPtr transport, bool has_place, Duration max_age = {},
                   Duration no_place_time = {});

  // Counts input that the connection discards. Stops reading after more than
  // Transport::kMaxDiscarded bytes.
  void Discard(std::size_t bytes);

  const TransportPtr transport_;
  const SteadyTime too_old_at_;  // when the connection should end, so that the client reconnects
  const SteadyTime ends_at_;     // when a connection without a place ends; otherwise max()

 private:
  friend class LoopConnections;

  virtual void OnClose() {}

  // Whether this server has not read all input yet, so that it does not wait for the peer.
  bool IsBehind() const { return transport_->unsent() == 0 && transport_->HasUnreadInput(); }

  const bool has_place_;
  LoopConnections* owner_ = nullptr;             // null: not added yet, or closed
  ConnectionCount::Network* network_ = nullptr;  // null: has no place
  std::list<std::unique_ptr<ServedConnection>>::iterator in_owner_;
  LoopAssignment assignment_;
  std::size_t discarded_ = 0;
};

// Loop thread only.
class LoopConnections {
 public:
  using List = std::list<std::unique_ptr<ServedConnection>>;

  // `on_replaced`: called for each connection that is closed to make room. `loop` and `count` must
  // outlive this object.
  LoopConnections(Loop& loop, ConnectionCount& count, std::function<void()> on_replaced)
      : loop_(loop), count_(count), on_replaced_(std::move(on_replaced)) {}

  // Adds and starts a connection. REQUIRES: if it has a place, the server's ConnectionCount counts
  // it.
  void Add(std::unique_ptr<ServedConnection> connection, LoopAssignment assignment = {});

  // Closes connections to make room for a connection of the network `newcomer`; see ChooseVictims.
  // If `spares_more`, it also spares connections that may be closed only if other loops cannot make
  // room. If most occupants wait for their peers, these are the occupants that began to wait less
  // than kGrace ago. Otherwise, these are the connections of networks with less than their share of
  // the places. Returns false if no connection may be closed.
  bool MakeRoom(std::string_view newcomer, bool spares_more = false);

  // At most `count` connections with a place, in the order to close them; see ChooseVictims. A
  // connection with unread input is chosen only if all that would be chosen have unread input.
  // newcomer.waiting is computed from `network`, the newcomer's network.
  std::vector<ServedConnection*> Victims(Occupant newcomer, std::size_t count,
                                         std::string_view network = {}) const;
  void CloseForRoom(ServedConnection& connection);

  // Drains all connections, including those added later.
  void Drain();

  void CloseAll();

  const List& all() const { return all_; }  // in order of arrival

 private:
  friend class ServedConnection;

  void Remove(ServedConnection& connection);

  Loop& loop_;
  ConnectionCount& count_;
  const std::function<void()> on_replaced_;
  List all_;
  std::deque<ServedConnection*> without_place_;  // the oldest first
  bool draining_ = false;
};

}  // namespace sluice::net
