#include "tests/simulation/uses.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

constexpr std::chrono::milliseconds kLongestLife(150);  // of a grant, in Rules

// Whether counters follow a jump back. If not, their time stands still until the clock catches up.
bool IsLong(Duration jump) { return jump < -std::chrono::seconds(1); }

}  // namespace

void Uses::Allow(const std::string& counter, const Limit& limit) {
  const bool may_prefetch = counter.starts_with("pool ") || counter.starts_with("quota ");
  if (!may_prefetch) return;
  Account& account = accounts_[counter];
  if (!std::exchange(account.known, true)) account.limit = limit;
  if (auto* const bucket = std::get_if<TokenBucket>(&account.limit)) {
    bucket->rate = std::max(bucket->rate, std::get<TokenBucket>(limit).rate);
    bucket->burst = std::max(bucket->burst, std::get<TokenBucket>(limit).burst);
  } else {
    auto& window = std::get<FixedWindow>(account.limit);
    window.limit = std::max(window.limit, std::get<FixedWindow>(limit).limit);
  }
}

void Uses::Use(const std::string& counter, std::int64_t units, const Interval& within) {
  const auto account = accounts_.find(counter);
  if (account != accounts_.end() && units > 0) account->second.uses.push_back({units, within});
}

void Uses::TakeOver(const TrueCounters& before, const TrueCounters& after, Time now) {
  for (auto& [name, account] : accounts_) {
    const auto lost = before.find(name);
    if (lost == before.end()) continue;
    const auto kept = after.find(name);
    const TrueCounter none;
    const TrueCounter& its = kept == after.end() ? none : kept->second;
    const std::int64_t forgotten =
        std::max<std::int64_t>(0, lost->second.counted() - its.counted());
    const std::int64_t still_held = lost->second.granted - its.granted;
    // If the counter also forgot a return of an earlier window, it may have forgotten more units of
    // this window than `forgotten` says.
    const Time its_now = now + Ahead(now);
    CounterState fresh;
    Open(account.limit, fresh, its_now);
    const std::int64_t freed =
        FreeIn(account.limit, kept == after.end() ? fresh : its.state, its_now) -
        FreeIn(account.limit, lost->second.state, its_now);
    const std::int64_t units =
        std::max(freed, std::min(forgotten, MostAtOnce(account.limit)) + still_held);
    if (units > 0) account.extra.push_back({units, {now, now + kLongestLife}});
  }
}

// The total of all jumps of Redis' clock until `now`.
Duration Uses::Ahead(Time now) const {
  Duration ahead{};
  for (const ClockJump& jump : jumps_) ahead += jump.at <= now ? jump.by : Duration();
  return ahead;
}

// After a jump ahead or a long jump back, servers may still use the units that are out, although
// the counter may admit these units again. JudgeBucket accounts for the time that a jump ahead
// skips.
void Uses::Jump(Duration by, const Deployment& redis, Time now) {
  jumps_.push_back({now, by});
  if (by < Duration() && !IsLong(by)) return;
  for (auto& [name, account] : accounts_) {
    std::int64_t units = 0;
    redis.ForEachMaster([&, &counter = name](const Script::Counters& counters) {
      const auto its = counters.by_name.find(counter);
      if (its == counters.by_name.end()) return;
      units += GrantsOutOf(its->second.limit, its->second.state).units();
    });
    account.extra.push_back({units, {now, now + kLongestLife}});
  }
}

std::optional<Uses::Moment> Uses::MomentOf(const Interval& within) const {
  Moment moment{.epoch = 0, .time = within.begin};
  Time stands_until = Time::min();
  Duration ahead{};
  for (const ClockJump& jump : jumps_) {
    if (jump.at > within.end) break;
    if (jump.at >= within.begin) return std::nullopt;
    stands_until = IsLong(jump.by) ? Time::min() : std::max(stands_until, jump.at + ahead);
    moment.epoch += IsLong(jump.by) ? 1 : 0;
    ahead += jump.by;
  }
  moment.time += ahead;
  return moment.time < stands_until ? std::nullopt : std::optional(moment);
}

std::int64_t Uses::ExtraIn(const Account& account, const Interval& interval) {
  std::int64_t units = 0;
  for (const Units& extra : account.extra) {
    const bool meets = extra.within.begin <= interval.end && interval.begin <= extra.within.end;
    if (meets) units += extra.units;
  }
  return units;
}

std::vector<std::string> Uses::Judge(const Model& model) const {
  std::vector<std::string> broken;
  for (const auto& [counter, account] : accounts_) {
    if (const auto* const bucket = std::get_if<TokenBucket>(&account.limit)) {
      JudgeBucket(*bucket, {counter, account, UndoneOf(model, counter)}, broken);
    } else {
      JudgeWindows(std::get<FixedWindow>(account.limit), {counter, account, {}}, broken);
    }
  }
  return broken;
}

std::vector<Uses::Undone> Uses::UndoneOf(const Model& model, const std::string& counter) const {
  std::vector<Undone> all;
  const auto changes = model.changes().find(counter);
  if (changes == model.changes().end()) return all;
  for (const Model::Change& change : changes->second) {
    if (!change.undone) continue;
    // If the clock jumped, its times cannot be compared.
    const Interval within = jumps_.empty() ? Interval{change.undone->since, change.at}
                                           : Interval{Time::min(), Time::max()};
    all.push_back({change.undone->units, within});
  }
  std::sort(all.begin(), all.end(),
            [](const Undone& a, const Undone& b) { return a.within.begin < b.within.begin; });
  return all;
}

// The time whose refills may be used: usually the length of the interval. But if checks that were
// undone later were in flight when the interval began, the time begins earlier: at the last moment
// when no such check was in flight. `undone` is sorted by the times of the checks' decisions.
Duration Uses::UnderWay(const Interval& interval, const std::vector<Undone>& undone) {
  Time since = interval.begin;
  std::optional<Time> until;
  for (const Undone& its : undone) {
    if (its.within.begin > interval.begin) break;
    if (!until || its.within.begin > *until) since = its.within.begin;
    until = std::max(until.value_or(Time::min()), its.within.end);
  }
  if (since == Time::min()) return Duration::max();
  return interval.end - (!until || *until < interval.begin ? interval.begin : since);
}

// The units that undos may give back in the interval, in 1/period of a unit. Considers the checks
// that are in flight when the interval begins and are undone in the interval. The undo of a check
// does not give back units that refilled only because the check had made room. But the undo ignores
// that undos of other checks also fill the bucket. So units that refilled while the undone checks
// were in flight may be used once more.
std::int64_t Uses::GivenBack(const TokenBucket& limit, const Interval& interval,
                             const std::vector<Undone>& undone) {
  std::int64_t units = 0;
  for (const Undone& its : undone) {
    const bool in_it = its.within.begin < interval.begin && interval.begin <= its.within.end &&
                       (its.within.end <= interval.end || its.within.end == Time::max());
    if (in_it) units += its.units;
  }
  const std::int64_t most = units * limit.period.count();
  const Duration under_way = UnderWay(interval, undone);
  return under_way == Duration::max() ? most : std::min(most, limit.rate * under_way.count());
}

// Judges every interval that begins with one use and ends with another. If the clock jumps ahead in
// the interval, the bucket also refills for the time that the clock skips.
void Uses::JudgeBucket(const TokenBucket& limit, const Judged& judged,
                       std::vector<std::string>& broken) const {
  std::vector<Units> uses = judged.account.uses;
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Units& a, const Units& b) { return a.within.end < b.within.end; });
  for (const Units& first : uses) {
    std::int64_t used = 0;
    for (const Units& last : uses) {
      if (last.within.begin < first.within.begin) continue;
      used += last.units;
      if (used <= limit.burst) continue;
      const Interval interval{first.within.begin, last.within.end};
      const Duration lasts = interval.end - interval.begin + Duration(2);  // times are rounded
      Duration refills = lasts;
      for (const ClockJump& jump : jumps_) {
        const bool meets = interval.begin <= jump.at && jump.at <= interval.end;
        if (meets && jump.by > Duration()) refills += jump.by;
      }
      const std::int64_t most = limit.burst + ExtraIn(judged.account, interval);
      const std::int64_t more = (used - most) * limit.period.count() - limit.rate * refills.count();
      if (more <= 0 || more <= GivenBack(limit, interval, judged.undone)) continue;
      return broken.push_back(fmt::format("{}: {} units of {} were used within {} µs",
                                          judged.counter, used, most, lasts.count()));
    }
  }
}

void Uses::JudgeWindows(const FixedWindow& limit, const Judged& judged,
                        std::vector<std::string>& broken) const {
  const bool is_one = limit.align == FixedWindow::Align::kFirst;  // outlasts a schedule
  std::map<Moment, Units> windows;
  for (const Units& use : judged.account.uses) {
    const auto moment = is_one ? Moment() : MomentOf(use.within);
    if (!moment) continue;
    const Time start = is_one ? Time() : limit.WindowStart(moment->time);
    const Time end = moment->time + (use.within.end - use.within.begin);
    if (!is_one && end >= limit.WindowEnd(start)) continue;
    Units& window = windows.try_emplace({moment->epoch, start}, Units{0, use.within}).first->second;
    window.units += use.units;
    window.within.begin = std::min(window.within.begin, use.within.begin);
    window.within.end = std::max(window.within.end, use.within.end);
  }
  for (const auto& [moment, used] : windows) {
    const std::int64_t most = limit.limit + ExtraIn(judged.account, used.within);
    if (used.units <= most) continue;
    broken.push_back(
        fmt::format("{}: {} units of {} were used in a window", judged.counter, used.units, most));
  }
}

}  // namespace sluice::simulation
