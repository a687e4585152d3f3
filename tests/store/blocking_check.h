// A StoreCheck and a StoreReset that a test builds in one line and waits for. RunHere submits on
// the calling thread, the other functions on an io thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "net/io_threads.h"
#include "store/store.h"
#include "tests/support/require.h"

namespace sluice::test {

// The single io thread of the test program, so that checks are submitted in the test's order.
inline net::IoThreads& Io() {
  struct Running {
    Running() {
      RandomBytes();  // initializes OpenSSL first, so that its cleanup comes after the threads end
      threads.Start();
    }
    net::IoThreads threads{1};
  };
  static Running running;
  return running.threads;
}

constexpr std::chrono::minutes kPatience{1};  // longer than any check may take

struct CounterSpec {
  std::string key;
  Limit limit;
  std::uint16_t group = 0;
  std::optional<std::int64_t> units{};  // by default the cost of the check
};

class BlockingCheck final : public StoreCheck {
 public:
  // Takes `check_cost` units of each counter whose spec has no units.
  BlockingCheck(std::vector<CounterSpec> specs, std::int64_t check_cost = 1,
                Mode check_mode = Mode::kConsume)
      : specs_(std::move(specs)) {
    for (const CounterSpec& spec : specs_) {
      counters.push_back({.key = spec.key,
                          .limit = &spec.limit,
                          .group = spec.group,
                          .units = spec.units.value_or(check_cost),
                          .verdict = {}});
    }
    demand.mode = check_mode;
  }

  // For equal checks, which must name the same limit object. `counter` must outlive the check.
  explicit BlockingCheck(const CounterSpec* counter) {
    counters.push_back({.key = counter->key, .limit = &counter->limit, .verdict = {}});
  }

  // Submits the check and waits for the answer. Returns *this.
  BlockingCheck& RunOn(Store& store, net::Loop& loop = Io().loop(0)) {
    Start(store, loop);
    return Wait();
  }

  // Like RunOn, but on this thread. REQUIRES: the store can be called on any thread, and answers
  // within Submit.
  BlockingCheck& RunHere(Store& store) {
    store.Submit(*this);
    return *this;
  }

  void Start(Store& store, net::Loop& loop = Io().loop(0)) {
    decided_ = false;
    loop.Post([this, &store] { store.Submit(*this); });
  }

  BlockingCheck& Wait() {
    std::unique_lock lock(mutex_);
    Require(changed_.wait_for(lock, kPatience, [this] { return decided_; }),
            "a check is not answered");
    return *this;
  }

 private:
  void OnDecided() override {
    const std::lock_guard lock(mutex_);
    decided_ = true;
    changed_.notify_all();
  }

  const std::vector<CounterSpec> specs_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool decided_ = false;
};

// Resets the counters of `reset_keys` and returns the error, if any.
class BlockingReset final : public StoreReset {
 public:
  explicit BlockingReset(std::vector<std::string_view> reset_keys) { keys = std::move(reset_keys); }

  std::optional<StoreFailure> RunOn(Store& store) {
    Start(store);
    return Wait();
  }

  void Start(Store& store) {
    Io().loop(0).Post([this, &store] { store.Reset(*this); });
  }

  std::optional<StoreFailure> Wait() {
    std::unique_lock lock(mutex_);
    Require(changed_.wait_for(lock, kPatience, [this] { return done_; }),
            "a reset is not answered");
    return failure;
  }

 private:
  void OnReset() override {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

}  // namespace sluice::test
