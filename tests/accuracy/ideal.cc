#include "tests/accuracy/ideal.h"

#include <algorithm>
#include <deque>
#include <map>

namespace sluice::accuracy {

std::int64_t IdealClockWindows(const Passages& checks, std::int64_t limit, Duration window) {
  std::map<std::int64_t, std::int64_t> taken;  // by number of the window
  std::int64_t admitted = 0;
  for (const Passage& check : checks) {
    std::int64_t& units = taken[check.at.time_since_epoch() / window];
    if (units + check.cost > limit) continue;
    units += check.cost;
    admitted += check.cost;
  }
  return admitted;
}

std::int64_t IdealSlidingLog(const Passages& checks, std::int64_t limit, Duration window) {
  std::deque<Passage> log;
  std::int64_t admitted = 0;
  for (const Passage& check : checks) {
    while (!log.empty() && log.front().at + window <= check.at) log.pop_front();
    std::int64_t units = 0;
    for (const Passage& entry : log) units += entry.cost;
    if (units + check.cost > limit) continue;
    log.push_back(check);
    admitted += check.cost;
  }
  return admitted;
}

std::int64_t IdealTokenBucket(const Passages& checks, const Bucket& bucket) {
  // Levels are multiples of 1/period of a token, so that nothing is rounded.
  const std::int64_t token = bucket.period.count();
  std::int64_t level = bucket.starts_empty ? 0 : bucket.burst * token;
  std::int64_t admitted = 0;
  Time last = checks.empty() ? Time() : checks.front().at;
  for (const Passage& check : checks) {
    level = std::min(bucket.burst * token, level + (check.at - last).count() * bucket.rate);
    last = check.at;
    const std::int64_t needed = bucket.borrows ? 0 : check.cost * token;
    if (level + bucket.max_wait.count() * bucket.rate < needed) continue;
    level -= check.cost * token;
    admitted += check.cost;
  }
  return admitted;
}

std::int64_t IdealWarmingBucket(const Passages& checks, const Warmup& bucket) {
  const double stable =
      static_cast<double>(bucket.period.count()) / static_cast<double>(bucket.rate);
  const double most = static_cast<double>(bucket.warmup.count()) / stable;
  // The time that all stored permits up to a level cost together. Above level most / 2, the cost of
  // a permit rises from `stable` to three times `stable`.
  const auto price_up_to = [&](double level) {
    const double above = std::max(0.0, level - most / 2);
    return stable * level + above * above * 2 * stable / most;
  };
  double stored = most;
  double next_free = 0;  // µs since the first check
  std::int64_t admitted = 0;
  for (const Passage& check : checks) {
    const auto now = static_cast<double>((check.at - checks.front().at).count());
    if (now < next_free) continue;
    stored = std::min(most, stored + (now - next_free) / stable);
    const double spent = std::min(static_cast<double>(check.cost), stored);
    next_free = now + price_up_to(stored) - price_up_to(stored - spent) +
                (static_cast<double>(check.cost) - spent) * stable;
    stored -= spent;
    admitted += check.cost;
  }
  return admitted;
}

}  // namespace sluice::accuracy
