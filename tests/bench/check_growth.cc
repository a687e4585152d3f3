// Measures whether checks become more expensive as a counter ages. Prints the mean run time of the
// script, the counter's memory and the number of runs over 1 ms, for each algorithm. Each row
// measures 200 checks of one counter: checks 1 to 200 in row 10, 201 to 400 in row 100, and in the
// other rows 901 to 1,100 and 9,901 to 10,100. Logs and sets of leases grow up to their limit, here
// 10,000, the maximum for a log. Other counters do not grow. Each check is a separate call.
//
//   build/release/bench/check_growth
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr std::int64_t kLimit = 10'000;
constexpr int kMeasured = 200;

struct Row {
  const char* name;
  Limit limit;
};

std::vector<Row> Rows() {
  return {
      {"fixed_window", FixedWindow{.limit = kLimit, .window = hours(1)}},
      {"sliding_log", SlidingLog{.limit = kLimit, .window = hours(1)}},
      {"sliding_window", SlidingWindow{.limit = kLimit, .window = seconds(1)}},
      {"token_bucket", TokenBucket{.rate = 1, .period = hours(1), .burst = kLimit}},
      {"token_bucket, warmup",
       WarmingBucket{.rate = 1'000'000, .period = seconds(1), .warmup = seconds(1)}},
      {"leaky_bucket", LeakyBucket{.rate = 1, .period = hours(1), .queue = kLimit}},
      {"concurrency", Concurrency{.limit = kLimit, .ttl = hours(1)}},
  };
}

// Makes `times` checks of cost 1 in sequence.
void CheckTimes(RedisStore& store, const CounterSpec& counter, int times) {
  static std::uint64_t leases = 0;
  for (int i = 0; i < times; ++i) {
    BlockingCheck check({counter});
    check.lease.emplace(Lease{.ttl = hours(1)});  // only concurrency uses it
    ++leases;
    for (int byte = 0; byte < 8; ++byte) {
      check.lease->id[byte] = static_cast<std::uint8_t>(leases >> (8 * byte));
    }
    check.RunOn(store);
  }
}

double MeanRun(RedisConnection& redis) {
  const std::string stats = redis.Text({"INFO", "commandstats"});
  const auto mean = stats.find("usec_per_call=", stats.find("cmdstat_evalsha:"));
  return std::stod(stats.substr(mean + 14));
}

int Main() {
  RedisServer server({.arguments = {"--slowlog-log-slower-than", "1000"}, .environment = {}});
  RedisConnection redis = server.Connect();
  RedisStore store(test::Io(), RedisUrl::Parse(server.url()).value(), {.silence = seconds(10)});
  if (!store.WaitUntilReady(seconds(5))) return 1;
  std::printf("%-22s %8s %12s %10s %12s\n", "algorithm", "checks", "us a check", "bytes",
              "over 1 ms");
  for (const Row& row : Rows()) {
    const CounterSpec counter{fmt::format("sluice:{{bench/{}/x}}:k", row.name), row.limit};
    int done = 0;
    for (const int checks : {10, 100, 1'000, 10'000}) {
      CheckTimes(store, counter, std::max(0, checks - kMeasured / 2 - done));
      redis.Text({"CONFIG", "RESETSTAT"});
      redis.Text({"SLOWLOG", "RESET"});
      CheckTimes(store, counter, kMeasured);
      done = std::max(done, checks - kMeasured / 2) + kMeasured;
      std::printf(
          "%-22s %8d %12.1f %10lld %12lld\n", row.name, checks, MeanRun(redis),
          static_cast<long long>(redis.Integer({"MEMORY", "USAGE", counter.key, "SAMPLES", "0"})),
          static_cast<long long>(redis.Integer({"SLOWLOG", "LEN"})));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main() { return sluice::test::Main(); }
