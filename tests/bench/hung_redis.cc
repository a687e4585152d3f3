// What checks cost while Redis hangs: their latency in the first 100 ms, when the breaker opens,
// and from then on; and how soon Redis decides again once it goes on.
//
//   build/release/bench/hung_redis [--rounds 5] [--rate 2000] [--seconds 2]
//
// "caller" is the latency at a caller on loopback, its own wakening included, which the quiet row
// shows; "server" is the server's own histogram, to the end of the bucket: from reading a request
// to handing over its answer. Exit status 1 if a median is beyond the bounds below. Load generator,
// server and Redis share the machine, so let nothing else run on it.
#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "load/generator.h"
#include "tests/support/http_get.h"
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
  double seconds = 2;   // Redis hangs, after the first 100 ms
};

Settings ParseFlags(int argc, char** argv) {
  std::map<std::string, double> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = std::stod(argv[i + 1]);
  Settings settings;
  const auto number = [&](const char* name, auto& value) {
    const auto flag = flags.extract(name);
    if (flag) value = static_cast<std::decay_t<decltype(value)>>(flag.mapped());
  };
  number("--rounds", settings.rounds);
  number("--rate", settings.rate);
  number("--seconds", settings.seconds);
  Require(flags.empty() && argc % 2 == 1, "unknown flag or missing value");
  return settings;
}

// The buckets of sluice_check_duration_seconds: how many checks took at most so long.
using Buckets = std::map<double, double>;

Buckets ReadBuckets(const SluiceServer& server) {
  std::istringstream page(HttpGet(server.http_address(), "/metrics").body);
  const std::string begin = "sluice_check_duration_seconds_bucket{le=\"";
  Buckets buckets;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind(begin, 0) != 0) continue;
    const std::size_t quote = line.find('"', begin.size());
    const std::string bound = line.substr(begin.size(), quote - begin.size());
    buckets[bound == "+Inf" ? 3600.0 : std::stod(bound)] = std::stod(line.substr(quote + 2));
  }
  Require(!buckets.empty(), "the server shows no latencies");
  return buckets;
}

// The end of the bucket that holds the 99th percentile of what came between the two.
Duration P99(const Buckets& before, const Buckets& after) {
  const double all = after.rbegin()->second - before.rbegin()->second;
  for (const auto& [bound, count] : after) {
    if (count - before.at(bound) >= 0.99 * all) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(bound));
    }
  }
  return Duration::max();
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
    Require(WaitUntil(seconds(10), [&] { return DecidedByStore(); }), "Redis is not asked");
    const std::chrono::duration<double> length(settings_.seconds);
    Round round;
    round.quiet = Load(std::chrono::duration_cast<Duration>(length), [] {});
    round.first = Load(kFirst, [this] { redis_.Pause(); });
    round.after = Load(std::chrono::duration_cast<Duration>(length), [] {});
    const SteadyTime resumed = SteadyNow();
    redis_.Resume();
    Require(WaitUntil(seconds(10), [&] { return DecidedByStore(); }), "Redis is not asked again");
    round.recovery = std::chrono::duration_cast<Duration>(SteadyNow() - resumed);
    return round;
  }

 private:
  // `begin` is called when all connections stand.
  template <typename Begin>
  Phase Load(Duration length, Begin begin) {
    const auto address = Address::Parse(fleet_.server(0).grpc_address());
    Require(static_cast<bool>(address), "no address");
    const load::Plan plan{.address = *address,
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
    const load::Tally tally = (*generator)->tally();
    Require(tally.failed == 0, "a check failed");
    return {.caller = tally.latencies.Quantile(0.99),
            .server = P99(before, ReadBuckets(fleet_.server(0))),
            .checks = tally.answered(),
            .fallbacks = tally.sources[v1::SOURCE_FALLBACK]};
  }

  // Twice: the first decision after an outage is followed by some that are the server's own.
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
      "after (%.0f), decides again after %.0f ms (%.0f)\n",
      Milliseconds(first), Milliseconds(kMostAtFirst), Milliseconds(after),
      Milliseconds(kMostAfter), Milliseconds(recovery), Milliseconds(kMostToRecover));
  const bool good = first <= kMostAtFirst && after <= kMostAfter && recovery <= kMostToRecover;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Run(sluice::test::ParseFlags(argc, argv)); }
