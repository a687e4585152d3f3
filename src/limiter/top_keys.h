// The keys that are denied most and used most, counted while somebody watches, in bounded sketches:
// one pair for each io thread.
//
// Thread-safe. A check reads one atomic while nobody watches. Otherwise it takes its thread's own
// lock, and waits for the lock only while Read copies that thread's entries.
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

  // Counts a check that limits decided: as denied for each counter that denied it, and if `taken`,
  // as used for each counter that was charged. `limits` are the answers to the counters of `check`,
  // or some of these answers.
  void Note(const StoreCheck& check, std::span<const LimitAnswer> limits, bool taken) {
    if (period_.load(std::memory_order_relaxed) == 0) return;
    NoteWatched(check, limits, taken);
  }

  // Highest counts first, at most `most`; the sum of all threads.
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
