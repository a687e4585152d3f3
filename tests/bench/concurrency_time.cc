// Measures one check on a concurrency counter with LIMIT slots (default: the documented maximum).
// All slots but 256 are held, each under its own lease. Measures how long a script call blocks
// Redis, and the CPU time in the embedded store. In both, the cost of a check must not grow with
// the number of holders.
//
//   build/release/bench/concurrency_time [LIMIT]
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "store/memory/memory_store.h"
#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kRounds = 51;
constexpr std::int64_t kMostSlots = Concurrency::kMaxCost;
Concurrency limit{.limit = Concurrency::kMaxLimit, .ttl = seconds(60)};
const std::string kKey = "sluice:{bench/slots}:concurrency";

// A store, and the time of its last check.
struct Timed {
  const char* name;
  std::function<void(BlockingCheck&)> run;
  std::function<double()> last;  // µs of the last run
};

std::unique_ptr<BlockingCheck> Make(std::int64_t cost, Mode mode = Mode::kConsume) {
  auto check = std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{kKey, limit}}, cost, mode);
  check->lease = Lease{.id = RandomBytes(), .ttl = limit.ttl};
  return check;
}

// Prints the median and the maximum time of an operation. `set_back`, unless null, undoes the
// operation; its time is not measured.
void Measure(const Timed& store, const char* what, const std::function<void(BlockingCheck&)>& set,
             const std::function<void(BlockingCheck&)>& set_back) {
  std::vector<double> times;
  for (int i = 0; i < kRounds; ++i) {
    const auto check = Make(1);
    set(*check);
    store.run(*check);
    times.push_back(store.last());
    if (!set_back) continue;
    set_back(*check);
    store.run(*check);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-9s %-34s median %7.1f us   max %7.1f us\n", store.name, what,
              times[times.size() / 2], times.back());
}

void MeasureAll(const Timed& store, ManualClock& clock) {
  const auto as = [](std::int64_t cost, Mode mode) {
    return [=](BlockingCheck& check) {
      check.counters.front().units = cost;
      check.demand.mode = mode;
    };
  };
  const auto release = as(1, Mode::kSettle);
  for (const std::int64_t cost : {std::int64_t{1}, kMostSlots}) {
    std::printf("%ld slots a check\n", static_cast<long>(cost));
    Measure(store, "taken", as(cost, Mode::kConsume), release);
    Measure(store, "peeked", as(cost, Mode::kPeek), nullptr);
    const auto last = Make(kMostSlots);
    store.run(*last);
    Measure(store, "denied", as(cost, Mode::kConsume), nullptr);
    const auto renew = [&](BlockingCheck& check) {
      check.lease = last->lease;
      check.demand.mode = Mode::kRenew;
    };
    if (cost == kMostSlots) Measure(store, "renewed", renew, nullptr);
    release(*last);
    store.run(*last);
    std::printf("%-9s %-34s        %7.1f us\n", store.name, "released", store.last());
  }
  clock.Advance(limit.ttl + seconds(1));
  for (const char* what : {"after all have expired", "the next"}) {
    store.run(*Make(1));
    std::printf("%-9s %-34s        %7.1f us\n", store.name, what, store.last());
  }
}

// Takes all slots but kMostSlots, the most that one check may take.
void Fill(const std::function<void(BlockingCheck&)>& run) {
  for (std::int64_t held = 0; held + kMostSlots < limit.limit; ++held) run(*Make(1));
}

double CpuMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void MeasureMemory() {
  ManualClock clock(Time(seconds(1000)));
  MemoryStore memory(clock, {});
  Fill([&](BlockingCheck& check) { check.RunHere(memory); });
  double last = 0;
  MeasureAll({.name = "embedded",
              .run =
                  [&](BlockingCheck& check) {
                    const double began = CpuMicroseconds();
                    check.RunHere(memory);
                    last = CpuMicroseconds() - began;
                  },
              .last = [&] { return last; }},
             clock);
}

void MeasureRedis() {
  RedisServer server;
  RedisConnection redis = server.Connect();
  ManualClock clock(Time(seconds(1'700'000'000)));
  RedisStore store(Io(), RedisUrl::Parse(server.url()).value(),
                   {.timeout = seconds(10), .silence = seconds(30), .clock = &clock});
  if (!store.WaitUntilReady(seconds(10))) return;
  Fill([&](BlockingCheck& check) { check.RunOn(store); });
  MeasureAll({.name = "redis",
              .run =
                  [&](BlockingCheck& check) {
                    redis.Text({"CONFIG", "RESETSTAT"});
                    check.RunOn(store);
                  },
              .last =
                  [&] {
                    const std::string stats = redis.Text({"INFO", "commandstats"});
                    const auto at = stats.find("usec=", stats.find("cmdstat_evalsha:"));
                    return std::stod(stats.substr(at + 5));
                  }},
             clock);
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) {
  if (argc > 1) sluice::test::limit.limit = std::stoll(argv[1]);
  sluice::test::MeasureMemory();
  sluice::test::MeasureRedis();
}
