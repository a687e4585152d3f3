// Measures the cost of `prefetch` for callers: the checks that are denied although an exact bucket
// would admit them. Also measures the calls to the store per check. Runs in virtual time, with the
// servers' own code for grants, and the embedded store instead of Redis. A second store, without
// prefetch, is the exact bucket and gets the same checks. Calls take no time.
//
//   build/release/bench/prefetch_price [--seconds 20]
//
// Prints a row for each shape of load. If a check of a large cost is denied, it is repeated every
// 50 ms until it is admitted.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/algorithm/token_bucket.h"
#include "limiter/ask_counts.h"
#include "limiter/grant_table.h"
#include "limiter/held_grant.h"
#include "store/memory/memory_store.h"
#include "tests/bench/number_flags.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kKey = "sluice:{shop/site/}:token_bucket:1s";
constexpr std::int64_t kRate = 5'000;  // a second
constexpr std::int64_t kBurst = 5'000;
constexpr Time kStart{Duration(std::chrono::hours(24 * 365 * 50))};

Limit LimitWith(Duration prefetch) {
  return TokenBucket{.rate = kRate, .period = seconds(1), .burst = kBurst, .prefetch = prefetch};
}

const Limit kPrefetching = LimitWith(milliseconds(100));
const Limit kExact = LimitWith(Duration::zero());

struct OneCheck final : StoreCheck {
  OneCheck(const Limit& limit, std::int64_t cost) {
    counters.push_back({.key = kKey, .limit = &limit, .units = cost, .verdict = {}});
    demand.mode = Mode::kConsume;
  }
  void OnDecided() override {}
};

// Handles grants as GrantTable does.
class Server {
 public:
  explicit Server(MemoryStore& store) : store_(store) {}

  bool Admits(std::int64_t cost, Time now) {
    const BootTime boot(now.time_since_epoch());
    if (held_ && held_->MayTake(cost, boot)) {
      held_->Take(cost);
      if (held_->EndsSoon(boot)) Replace(held_->Ask(cost, boot), boot);
      return true;
    }
    if (!held_ && often_->IsOften(kKey, GrantLife(kPrefetching), boot)) held_.emplace(kPrefetching);
    OneCheck check(kPrefetching, cost);
    CounterCheck& counter = check.counters.front();
    if (held_) {
      if (held_->holds()) counter.returned = held_->TakeOut(boot);
      counter.wanted = held_->Ask(cost, boot);
    }
    check.concerns_grants = counter.returned.granted > 0 || counter.wanted.units > 0;
    Submit(check);
    if (held_) held_->Learn(counter, true, 0);
    return check.admitted;
  }

  // When the grant must be returned. If `held_` holds no grant: when `held_` may be dropped.
  BootTime due() const {
    if (!held_) return BootTime::max();
    return held_->holds() ? held_->end() - GrantTable::kReturnEvery : held_->forgotten();
  }

  void ReturnDue(BootTime now) {
    if (held_->holds()) Return(held_->TakeOut(now));
    if (held_->forgotten() <= now) held_.reset();
  }

  // The process ends without returning anything, and another one starts.
  void Die() { held_.reset(); }

  std::int64_t calls() const { return calls_; }

 private:
  void Replace(const GrantWish& wanted, BootTime now) {
    if (wanted.units == 0) return;
    OneCheck check(kPrefetching, 0);
    check.concerns_grants = true;
    CounterCheck& counter = check.counters.front();
    counter.wanted = wanted;
    Submit(check);
    const GrantReturn held = counter.grant.units > 0 ? held_->TakeOut(now) : GrantReturn{};
    held_->Learn(counter, true, held.unused);
    if (held.granted > 0) Return(held);
  }

  void Return(const GrantReturn& returned) {
    OneCheck check(kPrefetching, 0);
    check.demand.mode = Mode::kPeek;
    check.concerns_grants = true;
    check.counters.front().returned = returned;
    Submit(check);
  }

  void Submit(OneCheck& check) {
    ++calls_;
    store_.Submit(check);
  }

  MemoryStore& store_;
  std::unique_ptr<AskCounts> often_ = std::make_unique<AskCounts>();
  std::optional<HeldGrant> held_;
  std::int64_t calls_ = 0;
};

struct Request {
  Duration at;
  std::size_t server = 0;
  std::int64_t cost = 1;
};

struct Shape {
  std::string name;
  std::size_t servers = 20;
  std::vector<Request> requests;  // by time
  Duration dies_after{};          // each server; zero: never
};

// The stores with and without prefetch get the same checks. If the store with prefetch denies a
// check of a large cost, only this store gets the repetitions.
struct Outcome {
  std::int64_t checks = 0, calls = 0;
  std::int64_t units = 0, exact_units = 0;  // admitted
  std::int64_t denied_here = 0;             // checks of cost 1 that only the exact bucket admits
  Duration longest_wait{};                  // of a large cost
};

class Run {
 public:
  explicit Run(const Shape& shape) : shape_(shape) {
    for (std::size_t i = 0; i < shape.servers; ++i) servers_.emplace_back(store_);
  }

  Outcome Measure() {
    for (const Request& request : shape_.requests) Decide(request);
    for (const Server& server : servers_) outcome_.calls += server.calls();
    return outcome_;
  }

 private:
  void Decide(const Request& request) {
    while (!retries_.empty() && retries_.front().at <= request.at) {
      const Request retry = retries_.front();
      retries_.erase(retries_.begin());
      Ask(retry);
    }
    Ask(request);
  }

  void Ask(const Request& request) {
    ReturnDue(request.at);
    clock_.Set(kStart + request.at);
    ++outcome_.checks;
    const bool admits = servers_[request.server].Admits(request.cost, kStart + request.at);
    OneCheck exact(kExact, request.cost);
    if (request.cost == 1 || first_asked_ == Duration::zero()) exact_.Submit(exact);
    outcome_.units += admits ? request.cost : 0;
    outcome_.exact_units += exact.admitted ? request.cost : 0;
    outcome_.denied_here += request.cost == 1 && exact.admitted && !admits ? 1 : 0;
    if (request.cost == 1) return;
    if (first_asked_ == Duration::zero()) first_asked_ = request.at;
    outcome_.longest_wait = std::max(outcome_.longest_wait, request.at - first_asked_);
    if (admits) {
      first_asked_ = Duration::zero();
    } else {
      retries_.push_back({request.at + milliseconds(50), request.server, request.cost});
    }
  }

  void ReturnDue(Duration until) {
    for (;;) {
      auto first = std::min_element(servers_.begin(), servers_.end(),
                                    [](const auto& a, const auto& b) { return a.due() < b.due(); });
      if (first->due() > BootTime((kStart + until).time_since_epoch())) break;
      const BootTime now = std::max(first->due(), BootTime(clock_.Now().time_since_epoch()));
      clock_.Set(Time(std::chrono::duration_cast<Duration>(now.time_since_epoch())));
      first->ReturnDue(now);
    }
    if (shape_.dies_after == Duration::zero()) return;
    for (; died_at_ + shape_.dies_after / shape_.servers <= until; ++deaths_) {
      died_at_ += shape_.dies_after / shape_.servers;
      servers_[deaths_ % servers_.size()].Die();
    }
  }

  const Shape& shape_;
  ManualClock clock_{kStart};
  MemoryStore store_{clock_, {}};
  MemoryStore exact_{clock_, {}};
  std::vector<Server> servers_;
  std::vector<Request> retries_;
  Duration first_asked_{};  // when the waiting check of a large cost was first sent
  Duration died_at_{};
  std::size_t deaths_ = 0;
  Outcome outcome_;
};

class Shapes {
 public:
  explicit Shapes(seconds length) : length_(length) {}

  // `rate(t)`: checks a second at t. `server`: draws the server that gets a check.
  Shape Make(std::string name, std::size_t servers, const std::function<double(Duration)>& rate,
             const std::function<std::size_t(std::mt19937&)>& server) {
    Shape shape{.name = std::move(name), .servers = servers, .requests = {}};
    std::mt19937 random(4711);
    for (Duration at{}; at < length_;) {
      const double now = rate(at);
      if (now <= 0) {
        at += milliseconds(1);
        continue;
      }
      const double wait = std::exponential_distribution<double>(now)(random);
      at += std::max(Duration(1), Duration(static_cast<std::int64_t>(1e6 * wait)));
      shape.requests.push_back({at, server(random)});
    }
    return shape;
  }

  Shape Even(std::string name, double load, std::size_t servers = 20) {
    return Make(
        std::move(name), servers, [load](Duration) { return load * kRate; },
        [servers](std::mt19937& random) { return random() % servers; });
  }

 private:
  const seconds length_;
};

std::vector<Shape> AllShapes(seconds length) {
  Shapes shapes(length);
  const auto any = [](std::mt19937& random) { return random() % 20; };
  std::vector<Shape> all{
      shapes.Even("20 servers, even, half of the rate", 0.5),
      shapes.Even("20 servers, even, 95 % of the rate", 0.95),
      shapes.Even("20 servers, even, twice the rate", 2),
      shapes.Make(
          "20 servers, 90 % of the rate; one gets 80 % of the checks", 20,
          [](Duration) { return 0.9 * kRate; },
          [](std::mt19937& random) { return random() % 5 > 0 ? 0 : random() % 20; }),
      shapes.Make(
          "a low load for 1.9 s, then twice the burst in 0.1 s", 20,
          [](Duration at) {
            return at % seconds(2) < milliseconds(1900) ? 0.05 * kRate : 20.0 * kBurst;
          },
          any),
      shapes.Make(
          "0.2 s at four times the rate, 0.8 s nothing", 20,
          [](Duration at) { return at % seconds(1) < milliseconds(200) ? 4.0 * kRate : 0; }, any),
      shapes.Even("80 % of the rate, each server dies every 2 s", 0.8),
      shapes.Even("half of the rate, and checks that cost 80 % of the burst", 0.5),
      shapes.Make(
          "1,000 sidecars start within a second, 90 % of the rate", 1'000,
          [](Duration at) {
            return 0.9 * kRate * std::min(1.0, std::chrono::duration<double>(at).count());
          },
          [](std::mt19937& random) { return random() % 1'000; }),
  };
  all[6].dies_after = seconds(2);
  for (Duration at = seconds(1); at < length; at += seconds(2)) {
    all[7].requests.push_back({at, 0, kBurst * 4 / 5});
  }
  std::stable_sort(all[7].requests.begin(), all[7].requests.end(),
                   [](const Request& a, const Request& b) { return a.at < b.at; });
  return all;
}

void Print(const Shape& shape) {
  const Outcome outcome = Run(shape).Measure();
  const auto checks = static_cast<double>(outcome.checks);
  fmt::print("| {:56} | {:6.3f} | {:6.2f} % | {:6.2f} % | {:>6} |\n", shape.name,
             static_cast<double>(outcome.calls) / checks,
             100 * static_cast<double>(outcome.denied_here) / checks,
             100 * static_cast<double>(outcome.units) / static_cast<double>(outcome.exact_units),
             outcome.longest_wait == Duration::zero()
                 ? ""
                 : fmt::format("{} ms", outcome.longest_wait / milliseconds(1)));
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) {
  using namespace sluice::test;
  int length = 20;
  NumberFlags flags(argc, argv);
  flags.Read("--seconds", length);
  flags.RequireNoOthers();
  fmt::print("| {:56} | {} | {} | {} | {} |\n", "load", "calls to Redis per check",
             "denied only with prefetch", "units admitted, relative to an exact bucket",
             "longest wait");
  for (const Shape& shape : AllShapes(seconds(length))) Print(shape);
}
