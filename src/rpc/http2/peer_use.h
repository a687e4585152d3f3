// How much of a server's limits the connections of one peer (net::Peer::network) on a loop use.
//
// A peer may use at most kShare times what is left. So it gets three quarters while it is alone,
// and any number of peers together leave some for the next one. While much is left,
// nothing is refused, because one peer may be a proxy with many callers.
//
// Loop thread only. Owned by a Shard.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::rpc::http2 {

struct PeerUse {
  static constexpr std::int64_t kShare = 3;

  // Whether a peer that uses `used` has its share or less, if `left` of the limit is left.
  static bool IsWithinShare(std::int64_t used, std::int64_t left) { return used <= kShare * left; }

  std::size_t connections = 0;
  std::int64_t calls = 0;  // counted by CallAdmission
  std::int64_t bytes = 0;  // counted by MessageMemory
};

}  // namespace sluice::rpc::http2
