#include "limiter/key_sketch.h"

#include <bit>
#include <utility>

#include "base/hash.h"

namespace sluice {
namespace {

constexpr std::uint32_t kFree = ~std::uint32_t{0};

}  // namespace

KeySketch::KeySketch(std::size_t size) : size_(size), slots_(std::bit_ceil(2 * size), kFree) {
  entries_.reserve(size);
  order_.reserve(size);
  rank_of_.reserve(size);
  hash_of_.reserve(size);
}

void KeySketch::Count(const CountedKey& key) {
  const std::uint64_t hash = Hash(key.key);
  const std::uint32_t known = slots_[SlotOf(hash)];
  Increment(known != kFree ? known : Insert(key, hash));
}

std::size_t KeySketch::SlotOf(std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash & mask;
  while (slots_[slot] != kFree && hash_of_[slots_[slot]] != hash) slot = (slot + 1) & mask;
  return slot;
}

// Entries behind move up, unless they would pass the slot of their hash.
void KeySketch::FreeSlotOf(std::uint64_t hash) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t free = SlotOf(hash);
  for (std::size_t slot = (free + 1) & mask; slots_[slot] != kFree; slot = (slot + 1) & mask) {
    const std::size_t first = hash_of_[slots_[slot]] & mask;
    if (((slot - first) & mask) < ((slot - free) & mask)) continue;
    slots_[free] = slots_[slot];
    free = slot;
  }
  slots_[free] = kFree;
}

std::uint32_t KeySketch::Insert(const CountedKey& key, std::uint64_t hash) {
  std::uint32_t index = 0;
  if (entries_.size() < size_) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back().key = key.key;
    order_.insert(order_.begin(), Ranked{.count = 0, .entry = index});
    rank_of_.push_back(0);
    for (std::size_t rank = 1; rank < order_.size(); ++rank) ++rank_of_[order_[rank].entry];
    hash_of_.push_back(hash);
  } else {
    index = order_.front().entry;
    FreeSlotOf(hash_of_[index]);
    entries_[index].key = key.key;
    entries_[index].error = entries_[index].count;
    hash_of_[index] = hash;
  }
  slots_[SlotOf(hash)] = index;
  Entry& entry = entries_[index];
  entry.domain = key.domain;
  entry.rule = key.rule;
  entry.limit = key.limit;
  return index;
}

void KeySketch::Increment(std::uint32_t entry) {
  const std::uint32_t rank = rank_of_[entry];
  const std::uint64_t count = order_[rank].count;
  // The last of its equals, by a binary search without branches, which would be mispredicted.
  std::uint32_t last = rank;
  for (auto left = static_cast<std::uint32_t>(order_.size()) - rank; left > 1;) {
    const std::uint32_t half = left / 2;
    last += order_[last + half].count == count ? half : 0;
    left -= half;
  }
  std::swap(order_[rank], order_[last]);
  rank_of_[order_[rank].entry] = rank;
  rank_of_[entry] = last;
  order_[last].count = ++entries_[entry].count;
}

std::uint64_t KeySketch::most_missed() const {
  return entries_.size() < size_ ? 0 : order_.front().count;
}

}  // namespace sluice
