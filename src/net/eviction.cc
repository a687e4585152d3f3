#include "net/eviction.h"

#include <algorithm>
#include <tuple>

namespace sluice::net {

std::vector<std::size_t> ChooseVictims(std::span<const Occupant> occupants, std::size_t least,
                                       std::size_t share, std::size_t count) {
  using Rank = std::tuple<bool, int, SteadyTime, std::size_t>;
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < occupants.size(); ++i) {
    const Occupant& it = occupants[i];
    if (it.state == Occupant::State::kBusy || it.places < least) continue;
    ranks.emplace_back(it.places <= share, -static_cast<int>(it.state), it.since, i);
  }
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::partial_sort(ranks.begin(), end, ranks.end());
  std::vector<std::size_t> victims;
  std::transform(ranks.begin(), end, std::back_inserter(victims),
                 [](const Rank& rank) { return std::get<3>(rank); });
  return victims;
}

}  // namespace sluice::net
