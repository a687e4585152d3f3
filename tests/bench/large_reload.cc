// Measures a sluiced that has 100,000 rules and uses Redis: the time and the peak memory of its
// start and of a reload under load, and the latency before and during the reload. Most rules are
// exact; 1 % are prefixes, 1 % networks, 0.1 % regular expressions.
//
//   build/release/bench/large_reload [--rules 100000] [--rounds 5] [--rate 2000] [--seconds 4]
//
// Exit status 1 if the time of the start or a median exceeds its bound below, or if Redis has not
// decided a call. Load generator, server and Redis share the machine, so run nothing else on it.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <map>

#include <fmt/format.h>

#include "base/thread.h"
#include "tests/bench/number_flags.h"
#include "tests/support/redis_server.h"
#include "tests/support/require.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

constexpr double kMostSeconds = 5;
constexpr double kMostMebibytes = 300;
constexpr double kMostSlowdown = 1.5;
constexpr std::chrono::seconds kTimeout(120);

struct Settings {
  int rules = 100'000;
  int rounds = 5;
  double rate = 2'000;  // checks a second
  double seconds = 4;   // for which latency is measured before each reload
};

Settings ParseFlags(int argc, char** argv) {
  NumberFlags flags(argc, argv);
  Settings settings;
  flags.Read("--rules", settings.rules);
  flags.Read("--rounds", settings.rounds);
  flags.Read("--rate", settings.rate);
  flags.Read("--seconds", settings.seconds);
  flags.RequireNoOthers();
  return settings;
}

std::string MatchOf(int i) {
  if (i % 100 == 1) return fmt::format("{{endpoint: {{prefix: /static/{}/}}}}", i);
  if (i % 100 == 2) {
    return fmt::format("{{client_ip: {{cidr: 10.{}.{}.0/24}}}}", i / 25'600, i / 100 % 256);
  }
  if (i % 1'000 == 3) return fmt::format("{{endpoint: {{regex: '/reports/{}/[0-9]+'}}}}", i);
  return fmt::format("{{endpoint: /api/v1/resource-{}, method: POST}}", i);
}

// Every rule changes if `burst` changes.
std::string RulesOf(int count, int burst) {
  std::string text = "domain: shop\nrules:\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format(
        "  - name: rule-{}\n    match: {}\n    per: [user]\n    limits:\n"
        "      - {{algorithm: token_bucket, rate: 1000/s, burst: {}}}\n",
        i, MatchOf(i), burst);
  }
  return text;
}

// A field of /proc/PID/status, in MiB.
double MebibytesOf(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word && word != field + ":";) {
  }
  double kib = 0;
  status >> kib;
  return kib / 1024;
}

void ForgetPeakOf(pid_t pid) { std::ofstream("/proc/" + std::to_string(pid) + "/clear_refs") << 5; }

double SecondsSince(SteadyTime start) {
  return std::chrono::duration<double>(SteadyNow() - start).count();
}

// The p99 of the calls sent in [from, to), in milliseconds.
double P99(const Answers& answers, SteadyTime from, SteadyTime to) {
  std::vector<double> waits;
  for (const Answer& answer : answers) {
    if (answer.sent < from || answer.sent >= to) continue;
    waits.push_back(
        std::chrono::duration<double, std::milli>(answer.answered - answer.sent).count());
  }
  Require(!waits.empty(), "no call was sent in the measured time");
  const auto at = waits.begin() + static_cast<std::ptrdiff_t>(waits.size() * 99 / 100);
  std::nth_element(waits.begin(), at, waits.end());
  return *at;
}

struct Round {
  double seconds = 0;  // of the reload
  double peak = 0;     // MiB
  double p99_before = 0;
  double p99_during = 0;
  std::size_t failed = 0;  // calls without a decision by Redis

  double slowdown() const { return p99_during / p99_before; }
};

Round RunOnce(Fleet& fleet, const Settings& settings, int number) {
  SluiceServer& server = fleet.server(0);
  Process& process = server.process();
  const std::string text = RulesOf(settings.rules, 1'001 + number);
  std::atomic<bool> done = false;
  Answers answers;
  Thread callers("load", [&] {
    answers = fleet.Run({.callers = 16,
                         .rate = settings.rate,
                         .request =
                             [&](int i) {
                               const int rule = i * 7 % settings.rules / 100 * 100 + 50;
                               auto request =
                                   CheckOf("shop", fmt::format("/api/v1/resource-{}", rule),
                                           std::to_string(i % 1'000));
                               (*request.mutable_attributes())["method"] = "POST";
                               return request;
                             },
                         .go_on = [&] { return !done; }});
  });
  const SteadyTime start = SteadyNow();
  WaitUntil(kTimeout, [&] { return SecondsSince(start) > settings.seconds; });
  ForgetPeakOf(process.pid());
  const SteadyTime changed = SteadyNow();
  server.WriteRules(text);
  process.Signal(SIGHUP);
  const bool in_force =
      WaitUntil(kTimeout, [&] { return process.CountLines(" in force, ") > number; });
  const SteadyTime ready = SteadyNow();
  // In one more second, the server frees the old rules, and may read the changed file again.
  WaitUntil(kTimeout, [&] { return SecondsSince(ready) > 1; });
  done = true;
  callers.Join();
  Require(in_force, "the rules do not come into force:\n" + process.Output());
  return {.seconds = std::chrono::duration<double>(ready - changed).count(),
          .peak = MebibytesOf(process.pid(), "VmHWM"),
          .p99_before = P99(answers, start, changed),
          .p99_during = P99(answers, changed, SteadyNow()),
          .failed = answers.size() - static_cast<std::size_t>(CountFromStore(answers))};
}

template <typename Value>
double Median(std::vector<Round> rounds, Value value) {
  std::sort(rounds.begin(), rounds.end(),
            [&](const Round& a, const Round& b) { return value(a) < value(b); });
  return value(rounds[rounds.size() / 2]);
}

int Run(const Settings& settings) {
  RedisServer redis;
  const std::string rules = RulesOf(settings.rules, 1'000);
  const SteadyTime start = SteadyNow();
  Fleet fleet({.rules = rules, .servers = 1}, &redis);
  const pid_t pid = fleet.server(0).process().pid();
  const double start_seconds = SecondsSince(start);
  std::printf("start with %d rules: %.2f s, peak %.0f MiB, then %.0f MiB\n", settings.rules,
              start_seconds, MebibytesOf(pid, "VmHWM"), MebibytesOf(pid, "VmRSS"));
  std::printf("%8s %10s %10s %12s %12s %9s %7s\n", "reload", "seconds", "peak MiB", "p99 before",
              "p99 during", "slowdown", "failed");
  std::vector<Round> rounds;
  for (int i = 0; i < settings.rounds; ++i) {
    rounds.push_back(RunOnce(fleet, settings, i));
    const Round& round = rounds.back();
    std::printf("%8d %10.2f %10.0f %9.2f ms %9.2f ms %9.2f %7zu\n", i + 1, round.seconds,
                round.peak, round.p99_before, round.p99_during, round.slowdown(), round.failed);
  }
  const double seconds = Median(rounds, [](const Round& round) { return round.seconds; });
  const double peak = Median(rounds, [](const Round& round) { return round.peak; });
  const double slowdown = Median(rounds, [](const Round& round) { return round.slowdown(); });
  std::printf("medians: %.2f s (at most %.0f), peak %.0f MiB (%.0f), slowdown %.2f (%.1f)\n",
              seconds, kMostSeconds, peak, kMostMebibytes, slowdown, kMostSlowdown);
  const bool good = start_seconds <= kMostSeconds && seconds <= kMostSeconds &&
                    peak <= kMostMebibytes && slowdown <= kMostSlowdown &&
                    std::ranges::all_of(rounds, [](const Round& it) { return it.failed == 0; });
  return good ? 0 : 1;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Run(sluice::test::ParseFlags(argc, argv)); }
