// Which connections a listener closes to make room for a new one, or to free memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace sluice::net {

// A connection that has a place.
struct Occupant {
  enum class State : std::uint8_t {
    kBusy,    // its peer waits for an answer; never closed
    kIdle,    // its peer has no request now, but had one before
    kUnused,  // its peer has not sent a request yet
    kStuck,   // its peer does not complete a request, or does not read an answer
  };
  State state = State::kIdle;
  SteadyTime since;        // in this state
  std::size_t places = 0;  // of its network (Peer::network), on all loops
};

// Returns the indices of at most `count` occupants to close, in the order to close them: those of
// networks with more than `share` places come first; then stuck ones, then unused ones, then idle
// ones. Within each group, the oldest comes first; equally old ones are ordered by index. Spares
// networks with fewer than `least` places.
std::vector<std::size_t> ChooseVictims(std::span<const Occupant> occupants, std::size_t least,
                                       std::size_t share, std::size_t count);

}  // namespace sluice::net
