// What the connections of a server share on one loop: the inflater, the usage of each peer, and the
// server's state (SharedState).
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "net/loop.h"
#include "rpc/http2/inflater.h"
#include "rpc/http2/shared_state.h"

namespace sluice::rpc::http2 {

// How much of the server's limits the connections of one peer (net::Peer::network) use on a loop.
//
// On each loop, a peer may use at most kShare times the free part of a limit. So a peer that is
// alone and on one loop can use three quarters of a limit, and any number of peers together leave a
// part for the next peer. While much of a limit is free, this rule refuses nothing, because one
// peer may be a proxy with many callers.
struct PeerUse {
  static constexpr std::int64_t kShare = 3;

  // Whether a peer that uses `used` of a limit is within its share, if `left` of the limit is free.
  static bool IsWithinShare(std::int64_t used, std::int64_t left) { return used <= kShare * left; }

  std::size_t connections = 0;
  std::int64_t calls = 0;  // counted by CallAdmission
  std::int64_t bytes = 0;  // counted by MessageMemory
};

// The number of unary calls so far.
struct CallCounts {
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;
};

class LoopState {
 public:
  // Both must outlive this object.
  LoopState(SharedState& shared, net::Loop& loop) : shared_(shared), loop_(loop) {}

  net::Loop& loop() { return loop_; }
  SharedState& shared() { return shared_; }
  const ServerOptions& options() const { return shared_.options; }
  const Times& times() const { return shared_.times; }
  void Count(Refusal refusal) { shared_.metrics.Count(refusal); }

  Inflater& inflater() { return inflater_; }
  // An iteration that has inflated more than this many bytes lets other connections run, because
  // inflating a few compressed bytes can take as long as a thousand calls.
  static constexpr std::size_t kInflatedBytesPerIteration = 64 * 1024;
  // Whether this iteration has inflated at most kInflatedBytesPerIteration, over all connections.
  bool MayInflate() {
    const SteadyTime now = loop_.now();
    if (std::exchange(inflate_iteration_, now) != now) inflated_before_ = inflater_.total();
    return inflater_.total() - inflated_before_ <= kInflatedBytesPerIteration;
  }

  // Counts a connection of the peer `network`, and returns the peer. REQUIRES: ForgetPeer is called
  // once for each call of FindPeer.
  PeerUse& FindPeer(const std::string& network) {
    PeerUse& peer = peers_[network];
    ++peer.connections;
    return peer;
  }
  void ForgetPeer(const std::string& network) {
    const auto peer = peers_.find(network);
    if (--peer->second.connections == 0) peers_.erase(peer);
  }

  CallCounts& unary_calls() { return unary_calls_; }

 private:
  SharedState& shared_;
  net::Loop& loop_;
  Inflater inflater_;
  SteadyTime inflate_iteration_{};                  // in which inflated_before_ was set
  std::size_t inflated_before_ = 0;                 // total() before that iteration
  std::unordered_map<std::string, PeerUse> peers_;  // with a connection
  CallCounts unary_calls_;
};

}  // namespace sluice::rpc::http2
