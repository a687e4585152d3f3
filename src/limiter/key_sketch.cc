#include "limiter/key_sketch.h"

#include <utility>

namespace sluice {

KeySketch::KeySketch(std::size_t size) : size_(size) {
  entries_.reserve(size);
  order_.reserve(size);
  rank_of_.reserve(size);
  hash_of_.reserve(size);
  entry_of_.reserve(size);
}

void KeySketch::Count(const CountedKey& key) {
  const std::uint64_t hash = Hash(key.key);
  const auto known = entry_of_.find(hash);
  Increment(known != entry_of_.end() ? known->second : Insert(key, hash));
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
    entry_of_.emplace(hash, index);
  } else {
    index = order_.front().entry;
    auto node = entry_of_.extract(hash_of_[index]);  // reused: no memory is allocated
    entries_[index].key = key.key;
    entries_[index].error = entries_[index].count;
    hash_of_[index] = hash;
    node.key() = hash;
    entry_of_.insert(std::move(node));
  }
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
