// The keys that are denied most, and the keys that are used most. They are counted while somebody
// watches, in two bounded sketches for each io thread.
//
// Thread-safe. If nobody watches, a check only reads one atomic. Otherwise it takes a lock of its
// thread, for which it waits only while Read copies the thread's entries or Stop frees them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "limiter/check_answer.h"
#include "limiter/key_sketch.h"
#include "metrics/counter.h"
#include "store/store.h"

namespace sluice {

class TopKeys {
 public:
  static constexpr std::size_t kEntriesPerThread = 1'000;

  // Starts to count from zero.
  void Restart() SLUICE_EXCLUDES(control_);

  // Stops counting and frees the memory.
  void Stop() SLUICE_EXCLUDES(control_);

  // Counts a check that limits decided. A key counts as denied if its counter denied the check. If
  // `taken`, a key counts as used if its counter was charged. `limits` has one answer for each
  // counter of `check`, or for some of them.
  void Note(const StoreCheck& check, std::span<const LimitAnswer> limits, bool taken) {
    if (period_.load(std::memory_order_relaxed) == 0) return;
    NoteWatched(check, limits, taken);
  }

  // The sums over all threads: at most `most` keys of each kind, highest counts first.
  struct Keys {
    std::vector<KeySketch::Entry> denied, used;
  };
  Keys Read(std::size_t most) const;

 private:
  struct Sketches {
    KeySketch denied{kEntriesPerThread / 2}, used{kEntriesPerThread / 2};
  };
  struct alignas(64) Part {
    mutable Mutex mutex;
    std::uint64_t period SLUICE_GUARDED_BY(mutex) = 0;
    std::unique_ptr<Sketches> sketches SLUICE_GUARDED_BY(mutex);
  };

  void NoteWatched(const StoreCheck& check, std::span<const LimitAnswer> limits, bool taken);
  std::vector<KeySketch::Entry> Merge(KeySketch Sketches::*kind, std::size_t most) const;

  Mutex control_;
  std::uint64_t periods_ SLUICE_GUARDED_BY(control_) = 0;  // begun so far
  std::atomic<std::uint64_t> period_{0};                   // 0: nobody watches
  std::array<Part, kThreadSlots> parts_;
};

}  // namespace sluice
