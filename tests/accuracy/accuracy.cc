// Measures whether every algorithm keeps its promise on every interval, when several servers share
// one Redis and serve many concurrent callers. Also measures how much less each algorithm admits
// than an exact one.
//
//   build/release/accuracy/accuracy             about 8 minutes; attacks windows of 1 minute
//   build/release/accuracy/accuracy --short     15 s; this form runs as a test
//
// Starts its own redis-server and servers. Exit status: 0 if all promises were kept.
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tests/accuracy/arrivals.h"
#include "tests/accuracy/callers.h"
#include "tests/accuracy/holders.h"
#include "tests/accuracy/judgement.h"
#include "tests/accuracy/report.h"
#include "tests/accuracy/store_clock.h"
#include "tests/accuracy/subject.h"

namespace sluice::accuracy {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Size kSmall{.limit = 100, .window = seconds(1)};
constexpr Size kMinute{.limit = 100, .window = seconds(60)};
constexpr Duration kHeadStart = milliseconds(50);  // time for the callers to get ready
constexpr char kPicture[] = "burst";               // for a picture; it tests little
constexpr int kAttacks = 5;                        // at most; one that hits the edge is enough

struct Settings {
  bool short_form = false;
  int seconds = 60;
  int servers = 3;
  int callers = 64;
  std::string pattern;
  std::string csv;
};

// All rules in one file, because the fleet gets its rules only when it starts.
std::string AllRules() {
  std::vector<Subject> subjects = Subjects(kSmall);
  for (Subject& subject : Subjects(kMinute)) subjects.push_back(std::move(subject));
  return RulesOf(subjects, DenyCache::kOn) + RuleOf(Holding{});
}

class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings),
        fleet_({.rules = AllRules(), .servers = settings.servers}, &redis_),
        clock_(redis_),
        callers_(fleet_, clock_, settings.callers),
        recording_(settings.csv) {}

  // Returns whether all promises were kept.
  bool Run() {
    for (const Pattern& pattern : Patterns()) {
      if (IsWanted(pattern.name)) RunPattern(pattern);
    }
    if (IsWanted("boundary")) Attack(settings_.short_form ? kSmall : kMinute);
    if (IsWanted("concurrency")) HoldResource();
    return report_.End();
  }

 private:
  bool IsWanted(const std::string& pattern) const {
    if (!settings_.pattern.empty()) return settings_.pattern == pattern;
    return !(settings_.short_form && pattern == kPicture);
  }

  void RunPattern(const Pattern& pattern) {
    report_.Begin(fmt::format("{}: {}", pattern.name, pattern.what));
    const Span span{.from = clock_.Now() + kHeadStart, .length = seconds(settings_.seconds)};
    Send(pattern.name, pattern.arrivals(kSmall, span), Subjects(kSmall));
  }

  // Sends checks, and records, judges and reports their outcomes. `run` must be unique, because it
  // names the counters.
  std::vector<History> Send(const std::string& run, const Arrivals& arrivals,
                            const std::vector<Subject>& subjects) {
    const std::vector<History> histories = callers_.Send(arrivals, subjects, run);
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      recording_.Add(run, subjects[i], histories[i]);
      report_.Row(subjects[i].name, Judge(subjects[i], histories[i]));
    }
    return histories;
  }

  void HoldResource() {
    const Holding holding{.length = seconds(settings_.seconds)};
    report_.Begin(
        fmt::format("concurrency: {} callers want to use a resource that {} may use at once",
                    holding.callers, holding.limit));
    const Usage usage = Hold(fleet_, holding);
    const Judgement judgement = Judge(usage, holding);
    report_.Row(kHoldingRule, judgement);
    if (usage.unreleased > judgement.admitted / 100) {
      report_.Fail(fmt::format("{} leases could not be released", usage.unreleased));
    }
    fmt::print("the resource itself never counted more than {} at once\n", judgement.densest);
  }

  // Repeats the attack until one hits the edge of the window. On a busy machine, some attacks miss
  // it.
  void Attack(const Size& size) {
    for (int attack = 1; attack <= kAttacks; ++attack) {
      const Time edge = NextEdge(clock_.Now() + kHeadStart + BoundaryLead(size), size.window);
      report_.Begin(
          fmt::format("boundary: {0} checks at the end of a window of {1}, {0} at the "
                      "start of the next",
                      size.limit, size.window));
      const std::vector<Subject> subjects = Subjects(size);
      const auto histories =
          Send(fmt::format("boundary-{}", attack), BoundaryAttack(size, edge), subjects);
      if (MetTheEdge(histories, size, edge)) return;
      fmt::print("the attack missed: not all checks were decided on their side of the edge\n");
    }
    report_.Fail("no boundary attack hit the edge");
  }

  static bool MetTheEdge(const std::vector<History>& histories, const Size& size, Time edge) {
    for (const History& history : histories) {
      std::int64_t before = 0;
      for (const Outcome& outcome : history.outcomes) {
        if (outcome.decided_at < edge - size.window) return false;
        if (outcome.decided_at >= edge + size.window) return false;
        before += outcome.decided_at < edge;
      }
      if (before != size.limit || history.unknown > 0) return false;
    }
    return true;
  }

  const Settings settings_;
  test::RedisServer redis_;
  test::Fleet fleet_;
  StoreClock clock_;
  Callers callers_;
  Recording recording_;
  Report report_;
};

int Main(int argc, char** argv) {
  CLI::App app(
      "Tests whether every algorithm keeps its promise on every interval: several servers on one\n"
      "Redis, many callers, the same arrivals for all algorithms, a limit of 100 a second\n"
      "(boundary: 100 a minute).",
      "accuracy");
  Settings settings;
  CLI::Option* length = app.add_option("--seconds", settings.seconds, "Length of each pattern")
                            ->check(CLI::PositiveNumber)
                            ->capture_default_str();
  app.add_option("--servers", settings.servers, "sluiced processes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--callers", settings.callers, "Threads that call")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--pattern", settings.pattern, "Run only this pattern")
      ->check(CLI::IsMember(
          {"uniform", "bursty", "zipf", "edges", "burst", "boundary", "concurrency"}));
  app.add_option("--csv", settings.csv, "Write every check to this file");
  app.add_flag("--short", settings.short_form,
               "2 s for each pattern; boundary attacks on windows of 1 s");
  app.footer(
      "Columns, in units:\n"
      "  worst / limit  in the interval that came closest to its limit or exceeded it most\n"
      "  over           admitted beyond a limit\n"
      "  any window     the maximum in any interval of the window's length\n"
      "  ideal          what an exact algorithm admits of the same checks\n"
      "Exit status: 0: all promises were kept; 1: a promise was broken; 2: error.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (settings.short_form && length->empty()) settings.seconds = 2;
  return Program(settings).Run() ? 0 : 1;
}

}  // namespace
}  // namespace sluice::accuracy

int main(int argc, char** argv) { return sluice::accuracy::Main(argc, argv); }
