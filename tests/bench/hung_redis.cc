// Measures the latency of checks while Redis hangs: in the first 100 ms, in which the breaker
// opens, and after that. Also measures the time from the end of the hang until Redis decides again.
//
//   build/release/bench/hung_redis [--rounds 5] [--rate 2000] [--seconds 2]
//
// "p99 caller" is measured at a caller on loopback and includes the caller's own wakeup. "p99
// server" is from the server's histogram: the time from reading a request to returning its answer,
// rounded up to the end of the bucket. For comparison, the row "answers" is measured before Redis
// hangs.
// Exit status 1 if a median exceeds its bound below. Load generator, server and Redis share the
// machine, so run nothing else on it.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "load/generator.h"
#include "tests/bench/number_flags.h"
#include "tests/bench/server_latency.h"
#include "tests/support/require.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kTimeout = milliseconds(10);  // redis.timeout, by default
constexpr Duration kMostAtFirst = kTimeout + milliseconds(2);
constexpr Duration kMostAfter = milliseconds(1);
constexpr Duration kMostToRecover = seconds(1);
constexpr Duration kFirst = milliseconds(100);

constexpr char kRules[] = R"yaml(
domain: bench
rules:
  - name: daily
    match: {endpoint: /daily}
    per: [user]
    limits:
      - {algorithm: fixed_window, limit: 1000000, window: 1d}
)yaml";

struct Settings {
  int rounds = 5;
  double rate = 2'000;  // checks a second
  double seconds = 2;   // of the load before the hang, and of the hang after its first 100 ms
};

Settings ParseFlags(int argc, char** argv) {
  NumberFlags flags(argc, argv);
  Settings settings;
  flags.Read("--rounds", settings.rounds);
  flags.Read("--rate", settings.rate);
  flags.Read("--seconds", settings.seconds);
  flags.RequireNoOthers();
  return settings;
}

struct Phase {
  Duration caller{};  // p99 at a caller
  Duration server{};  // p99 at the server
  std::uint64_t checks = 0;
  std::uint64_t fallbacks = 0;
};

struct Round {
  Phase quiet;  // Redis answers
  Phase first;
  Phase after;
  Duration recovery{};
};

class Measurement {
 public:
  explicit Measurement(const Settings& settings) : settings_(settings) {}

  Round Run() {
    Require(WaitUntil(seconds(10), [&] { return DecidedByStore(); }), "servers do not use Redis");
    const std::chrono::duration<double> length(settings_.seconds);
    Round round;
    round.quiet = Load(std::chrono::duration_cast<Duration>(length), [] {});
    round.first = Load(kFirst, [this] { redis_.Pause(); });
    round.after = Load(std::chrono::duration_cast<Duration>(length), [] {});
    const SteadyTime resumed = SteadyNow();
    redis_.Resume();
    Require(WaitUntil(seconds(10), [&] { return DecidedByStore(); }),
            "servers have not returned to Redis");
    round.recovery = std::chrono::duration_cast<Duration>(SteadyNow() - resumed);
    return round;
  }

 private:
  // Calls `begin` just before the load starts.
  template <typename Begin>
  Phase Load(Duration length, Begin begin) {
    const auto address = Address::Parse(fleet_.server(0).grpc_address());
    Require(static_cast<bool>(address), "no address");
    const load::Plan plan{.target = {.address = *address},
                          .request = CheckOf("bench", "/daily").SerializeAsString(),
                          .keys = 10'000,
                          .rate = settings_.rate,
                          .connections = 4,
                          .duration = length};
    const Buckets before = ReadBuckets(fleet_.server(0));
    begin();
    auto generator = load::Generator::Start(plan);
    Require(static_cast<bool>(generator), "the load does not start");
    Require((*generator)->WaitUntil(SteadyNow() + length + seconds(5)), "the load does not end");
    const load::LoadStats stats = (*generator)->stats();
    Require(stats.failed == 0, "a check failed");
    return {.caller = stats.latencies.Quantile(0.99),
            .server = QuantileBetween(before, ReadBuckets(fleet_.server(0)), 0.99),
            .checks = stats.answered(),
            .fallbacks = stats.sources[v1::SOURCE_FALLBACK]};
  }

  // Checks twice, because some decisions are still local after Redis' first decision.
  bool DecidedByStore() {
    const auto check = [this] { return fleet_.Check(CheckOf("bench", "/daily", "probe")); };
    return check().of_store() && check().of_store();
  }

  const Settings settings_;
  RedisServer redis_;
  Fleet fleet_{{.rules = kRules, .servers = 1, .store_timeout = StoreTimeout::kDefault}, &redis_};
};

double Milliseconds(Duration duration) { return static_cast<double>(duration.count()) / 1000; }

void Print(int number, const char* name, const Phase& phase) {
  std::printf("%5d %-14s %7.2f ms %7.2f ms %8llu %10llu\n", number, name,
              Milliseconds(phase.caller), Milliseconds(phase.server),
              static_cast<unsigned long long>(phase.checks),
              static_cast<unsigned long long>(phase.fallbacks));
}

template <typename Value>
Duration Median(std::vector<Round> rounds, Value value) {
  std::sort(rounds.begin(), rounds.end(),
            [&](const Round& a, const Round& b) { return value(a) < value(b); });
  return value(rounds[rounds.size() / 2]);
}

int Run(const Settings& settings) {
  Measurement measurement(settings);
  std::vector<Round> rounds;
  std::printf("%5s %-14s %10s %10s %8s %10s\n", "round", "Redis", "p99 caller", "p99 server",
              "checks", "fallbacks");
  for (int i = 1; i <= settings.rounds; ++i) {
    const Round& round = rounds.emplace_back(measurement.Run());
    Print(i, "answers", round.quiet);
    Print(i, "hangs: 100 ms", round.first);
    Print(i, "hangs: after", round.after);
    std::printf("%5d decides again after %.0f ms\n", i, Milliseconds(round.recovery));
  }
  const Duration first = Median(rounds, [](const Round& round) { return round.first.caller; });
  const Duration after = Median(rounds, [](const Round& round) { return round.after.server; });
  const Duration recovery = Median(rounds, [](const Round& round) { return round.recovery; });
  std::printf(
      "medians: p99 %.2f ms at a caller in the first 100 ms (at most %.0f), %.2f ms at the server "
      "after that (at most %.0f), Redis decides again after %.0f ms (at most %.0f)\n",
      Milliseconds(first), Milliseconds(kMostAtFirst), Milliseconds(after),
      Milliseconds(kMostAfter), Milliseconds(recovery), Milliseconds(kMostToRecover));
  const bool good = first <= kMostAtFirst && after <= kMostAfter && recovery <= kMostToRecover;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Run(sluice::test::ParseFlags(argc, argv)); }
