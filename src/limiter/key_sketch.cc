#include "limiter/key_sketch.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"

namespace sluice {

KeySketch::KeySketch(std::size_t size) : size_(size) {
  entries_.reserve(size);
  counts_.reserve(size);
  hash_of_.reserve(size);
  index_.reserve(size);
}

void KeySketch::Count(const CountedKey& key) {
  const std::uint64_t hash = Hash(key.key);
  const auto known = index_.find(hash);
  known != index_.end() ? void(++counts_[known->second]) : CountNew(key, hash);
}

void KeySketch::CountNew(const CountedKey& key, std::uint64_t hash) {
  auto index = static_cast<std::uint32_t>(entries_.size());
  if (index < size_) {
    entries_.emplace_back();
    counts_.push_back(0);
    hash_of_.push_back(hash);
    index_.emplace(hash, index);
  } else {
    index = LeastFrequent();
    if (!AdmitsOver(counts_[index])) return;
    auto node = index_.extract(std::exchange(hash_of_[index], hash));  // keeps its memory
    node.key() = hash;
    index_.insert(std::move(node));
  }
  Entry& entry = entries_[index];
  entry.key = key.key;
  entry.domain = key.domain;
  entry.rule = key.rule;
  entry.limit = key.limit;
  entry.error = counts_[index]++;
}

// Most entries have been counted about as often as the least frequent one, so the search is short.
std::uint32_t KeySketch::LeastFrequent() {
  while (next_ < counts_.size() && counts_[next_] != least_) ++next_;
  if (next_ == counts_.size()) {
    const auto least = std::min_element(counts_.begin(), counts_.end());
    least_ = *least;
    next_ = static_cast<std::uint32_t>(least - counts_.begin());
  }
  return next_;
}

// Returns true with probability 1/(count + 1): if the upper half of the next number of a linear
// congruential generator (Knuth's MMIX) is below 2^32 / (count + 1).
bool KeySketch::AdmitsOver(std::uint64_t count) {
  random_ = random_ * 6364136223846793005 + 1442695040888963407;
  return (random_ >> 32) * (count + 1) >> 32 == 0;
}

std::vector<KeySketch::Entry> KeySketch::entries() const {
  std::vector<Entry> entries = entries_;
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].count = counts_[i];
  return entries;
}

std::uint64_t KeySketch::most_missed() const {
  return entries_.size() < size_ ? 0 : *std::min_element(counts_.begin(), counts_.end());
}

}  // namespace sluice
