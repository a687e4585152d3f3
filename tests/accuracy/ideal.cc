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

std::int64_t IdealTokenBucket(const Passages& checks, std::int64_t burst, const Rate& rate) {
  // In 1/period of a token, so that nothing is rounded.
  const std::int64_t token = rate.period.count();
  std::int64_t level = burst * token;
  std::int64_t admitted = 0;
  Time last = checks.empty() ? Time() : checks.front().at;
  for (const Passage& check : checks) {
    level = std::min(burst * token, level + (check.at - last).count() * rate.rate);
    last = check.at;
    if (check.cost * token > level) continue;
    level -= check.cost * token;
    admitted += check.cost;
  }
  return admitted;
}

}  // namespace sluice::accuracy
