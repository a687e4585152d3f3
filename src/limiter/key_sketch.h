// The most frequent keys of a stream in bounded memory (the space-saving algorithm): a key that
// finds no room takes the place and the count of the least frequent one, so a count is never too
// low, and at most `error` too high.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
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
    std::uint64_t error = 0;
  };

  // REQUIRES: size > 0
  explicit KeySketch(std::size_t size);

  void Count(const CountedKey& key);

  // In no order.
  std::vector<Entry> entries() const;

  // The highest count that a key without an entry may have had.
  std::uint64_t most_missed() const;

 private:
  std::uint32_t Insert(const CountedKey& key, std::uint64_t hash);
  std::uint32_t LeastFrequent();

  // The slot of the entry with that hash, or the free slot where it belongs.
  std::size_t SlotOf(std::uint64_t hash) const;
  void FreeSlotOf(std::uint64_t hash);

  const std::size_t size_;
  std::vector<Entry> entries_;         // their `count` is in counts_
  std::vector<std::uint64_t> counts_;  // by entry
  // All entries before `next_` have been counted more than `least_` times, the others at least as
  // often.
  std::uint64_t least_ = 0;
  std::uint32_t next_ = 0;
  // Entries by the hash of their key: a table with linear probing, at most half full. Callers do
  // not know the seed of the hash, so that no two keys of a few hundred share one.
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint64_t> hash_of_;  // by entry
};

}  // namespace sluice
