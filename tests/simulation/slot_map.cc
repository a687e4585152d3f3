#include "tests/simulation/slot_map.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "store/redis/slot.h"

namespace sluice::simulation {

using redis::kSlots;
using redis::SlotOf;

SlotMap::SlotMap(World& world, std::vector<Address> owners) : owners_(std::move(owners)) {
  std::vector<std::uint64_t> ends;
  for (std::size_t i = 1; i < owners_.size(); ++i) ends.push_back(world.Below(kSlots));
  std::sort(ends.begin(), ends.end());
  ends.push_back(kSlots);
  for (std::size_t owner = 0; owner < owners_.size(); ++owner) {
    owner_of_.resize(ends[owner], static_cast<std::uint8_t>(owner));
  }
}

std::size_t SlotMap::OwnerOf(std::string_view key) const { return owner_of_[SlotOf(key)]; }

void SlotMap::BeginMove(std::string_view key, std::size_t to) { moves_to_[SlotOf(key)] = to; }

void SlotMap::EndMove(std::string_view key) {
  const auto move = moves_to_.extract(SlotOf(key));
  owner_of_[move.key()] = static_cast<std::uint8_t>(move.mapped());
}

bool SlotMap::moves(std::size_t owner) const {
  return std::any_of(moves_to_.begin(), moves_to_.end(), [&](const auto& move) {
    return move.second == owner || owner_of_[move.first] == owner;
  });
}

std::string SlotMap::RefusalOf(const Address& server, std::span<const std::string> keys,
                               bool asking, const Script::Counters& held) const {
  if (keys.empty()) return {};
  const std::uint16_t slot = SlotOf(keys.front());
  const auto missing =
      std::count_if(keys.begin(), keys.end(), [&](const auto& key) { return !held.Has(key); });
  const auto move = moves_to_.find(slot);
  if (!Owns(server, slot)) {
    if (!asking || !Imports(server, slot)) {
      return fmt::format("-MOVED {} {}\r\n", slot, owners_[owner_of_[slot]].ToString());
    }
    return keys.size() > 1 && missing > 0 ? "-TRYAGAIN Multiple keys request during rehashing\r\n"
                                          : "";
  }
  if (move == moves_to_.end() || missing == 0) return {};
  if (std::cmp_less(missing, keys.size())) {
    return "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
  }
  return fmt::format("-ASK {} {}\r\n", slot, owners_[move->second].ToString());
}

bool SlotMap::MayRead(const Address& server, std::string_view key, bool asking,
                      const Script::Counters& held) const {
  const std::uint16_t slot = SlotOf(key);
  if (asking && Imports(server, slot)) return true;
  return Owns(server, slot) && (!moves_to_.contains(slot) || held.Has(key));
}

std::string SlotMap::Describe() const {
  std::string ranges;
  std::size_t count = 0;
  for (std::size_t first = 0, end = 0; first < kSlots; first = end) {
    while (end < kSlots && owner_of_[end] == owner_of_[first]) ++end;
    const Address& owner = owners_[owner_of_[first]];
    ranges += fmt::format("*3\r\n:{}\r\n:{}\r\n*2\r\n${}\r\n{}\r\n:{}\r\n", first, end - 1,
                          owner.host.size(), owner.host, owner.port);
    ++count;
  }
  return fmt::format("*{}\r\n{}", count, ranges);
}

}  // namespace sluice::simulation
