// Check handlers on a loop whose iterations the test runs, with a store that the test can pause.
//
// Not thread-safe.
#pragma once

#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <string>
#include <vector>

#include "limiter/limiter.h"
#include "service/batched_check.h"
#include "service/check_limits_handler.h"
#include "store/memory/memory_store.h"
#include "tests/support/fake_call.h"
#include "tests/support/manual_loop.h"

namespace sluice::test {

using std::chrono::seconds;

// Answers checks at once, or holds them until Release().
class SwitchedStore final : public Store {
 public:
  explicit SwitchedStore(const Clock& clock) : memory_(clock, {}) {}

  void Submit(StoreCheck& check) override {
    ++submitted;
    if (holding) return held_.push_back(&check);
    if (!admitting) return memory_.Submit(check);
    for (CounterCheck& counter : check.counters) counter.verdict = {.admitted = true};
    check.admitted = true;
    check.OnDecided();
  }
  void Reset(StoreReset& reset) override { memory_.Reset(reset); }
  void Undo(const StoreCheck& check) override { memory_.Undo(check); }
  bool Settle(const StoreCheck& settle) override { return memory_.Settle(settle); }
  std::size_t PartOf(std::string_view) const override { return 0; }

  void Release(std::size_t count = 1'000'000) {
    std::vector<StoreCheck*> released;
    released.swap(held_);
    for (StoreCheck* check : released) {
      if (count == 0) {
        held_.push_back(check);
      } else {
        --count;
        memory_.Submit(*check);
      }
    }
  }

  bool holding = false;
  bool admitting = false;  // admits all checks without counting, because counters allocate memory
  std::size_t submitted = 0;

 private:
  MemoryStore memory_;
  std::vector<StoreCheck*> held_;
};

class HandlersTest : public testing::Test {
 protected:
  HandlersTest() {
    Rule rule{.name = "per-user", .per = {{.attribute = "user"}}};
    rule.limits.limits = {TokenBucket{.rate = 100, .period = seconds(1), .burst = 1'000'000}};
    limiter_.SetRules(RuleIndex::Build({Domain{.name = "shop", .rules = {rule}}}, {}).value());
  }

  static v1::CheckLimitRequest Check(int id) {
    v1::CheckLimitRequest request;
    request.set_domain("shop");
    (*request.mutable_attributes())["user"] = "a user with a longer name";
    request.set_request_id(std::to_string(id));
    return request;
  }
  static std::string Frame(int count, int first = 0) {
    v1::CheckLimitsRequest frame;
    for (int i = 0; i < count; ++i) *frame.add_checks() = Check(first + i);
    return frame.SerializeAsString();
  }
  static int ResultsOf(const std::string& bytes) {
    v1::CheckLimitsResponse response;
    EXPECT_TRUE(response.ParseFromString(bytes));
    return response.results_size();
  }

  ManualLoop loop_;
  ManualClock clock_{Time(seconds(1'000'000))};
  MetricsRegistry metrics_;
  SwitchedStore store_{clock_};
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {.store_timeout = seconds(10)}};
  BatchQueue batches_{loop_};
  BatchedCheckPool items_{limiter_};
  std::string buffer_;
  FakeCall call_;
};

}  // namespace sluice::test
