#include "limiter/key_sketch.h"

#include <algorithm>
#include <utility>

namespace sluice {

KeySketch::KeySketch(std::size_t size) : size_(size) {
  entries_.reserve(size);  // entry_of_ has views of them
  order_.reserve(size);
  rank_of_.reserve(size);
  entry_of_.reserve(size);
}

void KeySketch::Count(const CountedKey& key) {
  const auto known = entry_of_.find(key.key);
  Increment(known != entry_of_.end() ? known->second : Insert(key));
}

std::uint32_t KeySketch::Insert(const CountedKey& key) {
  std::uint32_t index = 0;
  if (entries_.size() < size_) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back().key = key.key;
    order_.insert(order_.begin(), Ranked{.count = 0, .entry = index});
    rank_of_.push_back(0);
    for (std::size_t rank = 1; rank < order_.size(); ++rank) ++rank_of_[order_[rank].entry];
    entry_of_.emplace(entries_[index].key, index);
  } else {
    index = order_.front().entry;
    auto node = entry_of_.extract(entries_[index].key);  // reused: no memory is allocated
    entries_[index].key = key.key;
    entries_[index].error = entries_[index].count;
    node.key() = entries_[index].key;
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
  const auto beyond =
      std::upper_bound(order_.begin() + rank, order_.end(), count,
                       [](std::uint64_t a, const Ranked& b) { return a < b.count; });
  const auto last = static_cast<std::uint32_t>(beyond - order_.begin()) - 1;
  std::swap(order_[rank], order_[last]);
  rank_of_[order_[rank].entry] = rank;
  rank_of_[entry] = last;
  order_[last].count = ++entries_[entry].count;
}

std::uint64_t KeySketch::most_missed() const {
  return entries_.size() < size_ ? 0 : order_.front().count;
}

}  // namespace sluice
