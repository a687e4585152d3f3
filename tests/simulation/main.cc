// Runs schedules of the simulation. Prints the seed of each schedule that breaks a promise; with
// that seed, the schedule can be run again.
#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <cstdint>
#include <cstdio>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tests/simulation/schedule.h"

using sluice::simulation::Planted;

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t count = 1;
  int fault = 0;
  CLI::App app("Runs schedules of the simulation, each generated from its seed.", "simulate");
  app.add_option("FIRST", first, "Seed of the first schedule")->capture_default_str();
  app.add_option("COUNT", count, "Number of schedules, with consecutive seeds")
      ->capture_default_str();
  app.add_option("FAULT", fault, "A fault to plant: its number in tests/simulation/planted.h")
      ->check(CLI::Range(0, static_cast<int>(Planted::kDenialsOutliveReturns)))
      ->capture_default_str();
  app.footer(
      "Prints the seed of each schedule that breaks a promise.\n"
      "Exit status: 0 if none does, otherwise 1.\n"
      "Example: simulate 1 1000000");
  CLI11_PARSE(app, argc, argv);

  spdlog::set_level(spdlog::level::off);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // huge pages would cost time for each server
  const auto planted = static_cast<Planted>(fault);
  sluice::simulation::Report sum;
  std::uint64_t broken = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto report = sluice::simulation::RunSchedule(seed, planted);
    for (const std::string& what : report.broken) fmt::print("seed {}: {}\n", seed, what);
    if (!report.broken.empty()) ++broken;
    sum.calls += report.calls;
    sum.answers += report.answers;
    sum.admitted_by_store += report.admitted_by_store;
    sum.admitted_by_grant += report.admitted_by_grant;
    sum.admitted_by_fallback += report.admitted_by_fallback;
    sum.denied += report.denied;
    sum.denied_by_cache += report.denied_by_cache;
    sum.reloads += report.reloads;
    sum.errors += report.errors;
    sum.leases += report.leases;
    sum.settled += report.settled;
    sum.queued += report.queued;
    sum.crashes += report.crashes;
    sum.unanswered += report.unanswered;
    sum.faults += report.faults;
    sum.failovers += report.failovers;
    sum.moved_slots += report.moved_slots;
    sum.resets += report.resets;
    sum.slowest = std::max(sum.slowest, report.slowest);
    if ((seed - first) % 10'000 == 9'999) {
      fmt::print(stderr, "{} of {} schedules\n", seed - first + 1, count);
    }
  }
  fmt::print(
      "{} schedules, {} broken; {} calls: {} answered ({} units admitted by the store, {} of them "
      "by "
      "grants, {} by fallback; {} calls denied, {} of them from memory, {} errors), {} canceled or "
      "cut; {} "
      "leases of units, {} settled, {} settlements queued; {} reloads, {} faults, {} failovers, {} "
      "crashes, {} slots moved, {} resets; slowest answer {} ms\n",
      count, broken, sum.calls, sum.answers, sum.admitted_by_store, sum.admitted_by_grant,
      sum.admitted_by_fallback, sum.denied, sum.denied_by_cache, sum.errors, sum.unanswered,
      sum.leases, sum.settled, sum.queued, sum.reloads, sum.faults, sum.failovers, sum.crashes,
      sum.moved_slots, sum.resets,
      std::chrono::duration_cast<std::chrono::milliseconds>(sum.slowest).count());
  return broken == 0 ? 0 : 1;
}
