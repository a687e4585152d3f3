// Measures how long the largest runs of the check script block Redis: sliding logs of 10,000
// entries, 64 keys at once. In four parts, checks of 1 unit are admitted; checks of 1 unit are
// denied; checks of 2 units are denied; checks of 1 unit remove expired entries. The slow log
// of Redis records every run over 1 ms; on an idle machine, it should stay empty.
//
//   build/release/bench/script_time
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kKeys = 64;
constexpr SlidingLog kLog{.limit = SlidingLog::kMaxLimit, .window = seconds(60)};

// Makes one check on each key, all at once, `rounds` times. Returns how many were admitted.
int RunAll(RedisStore& store, std::int64_t cost, int rounds) {
  std::vector<std::unique_ptr<BlockingCheck>> checks;
  for (int key = 0; key < kKeys; ++key) {
    const std::string name = fmt::format("sluice:{{bench/log/{}}}:log", key);
    checks.push_back(std::make_unique<BlockingCheck>(std::vector<CounterSpec>{{name, kLog}}, cost));
  }
  int admitted = 0;
  for (int round = 0; round < rounds; ++round) {
    for (auto& check : checks) check->Start(store);
    for (auto& check : checks) admitted += check->Wait().admitted ? 1 : 0;
  }
  return admitted;
}

void Report(RedisConnection& redis, const char* what, int admitted) {
  const std::string stats = redis.Text({"INFO", "commandstats"});
  const auto mean = stats.find("usec_per_call=", stats.find("cmdstat_evalsha:"));
  std::printf("%-36s  admitted %7d  mean run %6.0f us  runs over 1 ms %lld\n", what, admitted,
              std::stod(stats.substr(mean + 14)),
              static_cast<long long>(redis.Integer({"SLOWLOG", "LEN"})));
  redis.Text({"CONFIG", "RESETSTAT"});
  redis.Text({"SLOWLOG", "RESET"});
}

int Main() {
  RedisServer server({.arguments = {"--slowlog-log-slower-than", "1000"}});
  RedisConnection redis = server.Connect();
  RedisStore store(test::Io(), RedisUrl::Parse(server.url()).value(), {.silence = seconds(10)});
  if (!store.WaitUntilReady(seconds(5))) return 1;
  redis.Text({"SLOWLOG", "RESET"});

  const auto began = std::chrono::steady_clock::now();
  int filled = RunAll(store, 1, SlidingLog::kMaxLimit - 2);
  // The last entry has 2 units. So for checks of 2 units, the first guess of time_of_unit
  // (scripts/lua/algorithm/sliding_log.lua) is wrong, and the bisection is over all entries.
  filled += RunAll(store, 2, 1);
  Report(redis, "filling to 9,999 entries a key", filled);
  Report(redis, "denied, first guess correct", RunAll(store, 1, 200));
  Report(redis, "denied, by bisection", RunAll(store, 2, 200));
  std::printf("waiting for the entries to leave the window\n");
  std::this_thread::sleep_until(began + kLog.window);
  Report(redis, "while entries leave the window", RunAll(store, 1, 2'000));
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main() { return sluice::test::Main(); }
