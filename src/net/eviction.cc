#include "net/eviction.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace sluice::net {

std::vector<std::size_t> ChooseVictims(std::span<const Occupant> occupants,
                                       std::string_view newcomer, std::size_t count) {
  std::unordered_map<std::string_view, std::size_t> places;
  for (const Occupant& it : occupants) ++places[it.network];
  const std::size_t own = places.contains(newcomer) ? places[newcomer] : 0;
  const std::size_t share = occupants.size() / std::max<std::size_t>(places.size(), 1);
  using Rank = std::tuple<bool, int, SteadyTime, std::size_t>;
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < occupants.size(); ++i) {
    const Occupant& it = occupants[i];
    const std::size_t of_network = places[it.network];
    if (it.state == Occupant::State::kBusy || of_network < own) continue;
    ranks.emplace_back(of_network <= share, -static_cast<int>(it.state), it.since, i);
  }
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranks.size()));
  std::partial_sort(ranks.begin(), end, ranks.end());
  std::vector<std::size_t> victims;
  std::transform(ranks.begin(), end, std::back_inserter(victims),
                 [](const Rank& rank) { return std::get<3>(rank); });
  return victims;
}

}  // namespace sluice::net
