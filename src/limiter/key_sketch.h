// The most frequent keys of a stream, in bounded memory. If there is no room for a new key, the new
// key replaces the least frequent key with probability 1/(n + 1), where n is the count of the least
// frequent key. The count of the new key then starts at n, because on average the new key was seen
// n times before (Ben Basat et al., "Randomized Admission Policy for Efficient Top-k and Frequency
// Estimation", 2017). Rare keys hardly ever replace another key, even if there are very many of
// them.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice {

// A counter, and the limit that it belongs to.
struct CountedKey {
  std::string_view key;  // of the counter, in the store
  std::string_view domain;
  std::string_view rule;
  std::uint32_t limit = 0;  // its index in the rule's (or its override's) limits
};

class KeySketch {
 public:
  struct Entry {
    std::string key, domain, rule;
    std::uint32_t limit = 0;
    std::uint64_t count = 0;
    std::uint64_t error = 0;  // the part of `count` that is an estimate
  };

  // REQUIRES: size > 0
  explicit KeySketch(std::size_t size);

  void Count(const CountedKey& key);

  // In no particular order.
  std::vector<Entry> entries() const;

  // Approximately the highest count that a key without an entry may have had.
  std::uint64_t most_missed() const;

 private:
  void CountNew(const CountedKey& key, std::uint64_t hash);
  std::uint32_t LeastFrequent();
  bool AdmitsOver(std::uint64_t count);

  const std::size_t size_;
  std::vector<Entry> entries_;         // their `count` is in counts_
  std::vector<std::uint64_t> counts_;  // by entry
  // All entries before `next_` have been counted more than `least_` times, the others at least
  // `least_` times.
  std::uint64_t least_ = 0;
  std::uint32_t next_ = 0;
  std::uint64_t random_ = 0;
  // Entries by the hash of their key. Callers do not know the seed of the hash, so they cannot
  // choose keys with equal hashes, and a few hundred keys hardly ever have equal hashes.
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::vector<std::uint64_t> hash_of_;  // by entry
};

}  // namespace sluice
