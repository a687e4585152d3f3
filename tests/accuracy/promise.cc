#include "tests/accuracy/promise.h"

#include <algorithm>
#include <tuple>

namespace sluice::accuracy {

namespace {

// Whether interval `a` is worse than `b`. If both are equally far from their limits, the one with
// more units counts as worse.
bool IsWorse(const Findings& a, const Findings& b) {
  return std::tuple(a.units - a.limit, a.units) > std::tuple(b.units - b.limit, b.units);
}

void KeepWorse(Findings& findings, const Findings& other) {
  if (other.units == 0 || (findings.units > 0 && !IsWorse(other, findings))) return;
  findings.units = other.units;
  findings.limit = other.limit;
}

// Records an interval that ends with the passage `last`.
void Note(Findings& findings, std::int64_t units, std::int64_t limit, const Passage& last) {
  KeepWorse(findings, {.units = units, .limit = limit});
  findings.over += std::clamp<std::int64_t>(units - limit, 0, last.cost);
}

}  // namespace

void Findings::Add(const Findings& other) {
  KeepWorse(*this, other);
  over += other.over;
}

Findings CheckClockWindows(const Passages& admitted, std::int64_t limit, Duration window) {
  Findings findings;
  std::int64_t number = -1;
  std::int64_t units = 0;
  for (const Passage& passage : admitted) {
    const std::int64_t now = passage.at.time_since_epoch() / window;
    if (now != number) units = 0;
    number = now;
    units += passage.cost;
    Note(findings, units, limit, passage);
  }
  return findings;
}

Findings CheckEveryWindow(const Passages& admitted, std::int64_t limit, Duration window) {
  Findings findings;
  std::int64_t units = 0;
  auto oldest = admitted.begin();
  for (const Passage& passage : admitted) {
    units += passage.cost;
    for (; oldest->at + window <= passage.at; ++oldest) units -= oldest->cost;
    Note(findings, units, limit, passage);
  }
  return findings;
}

Findings CheckEveryLength(const Passages& admitted, const Drip& drip) {
  // For each passage, finds the fullest interval that ends with it. `level` is the units before a
  // passage, minus the units that the rate allows until the passage, both multiplied by `period`,
  // so that it is an integer. The fullest interval begins at the passage with the lowest level.
  Findings findings;
  std::int64_t units = 0;
  std::int64_t lowest = 0;
  const Passage* begin = nullptr;
  std::int64_t units_before = 0;  // before the interval
  for (const Passage& passage : admitted) {
    const Duration since = passage.at - admitted.front().at;
    const std::int64_t level = units * drip.period.count() - since.count() * drip.rate;
    if (!begin || level < lowest) {
      lowest = level;
      begin = &passage;
      units_before = units;
    }
    units += passage.cost;
    const Duration length = passage.at - begin->at + drip.step;
    const std::int64_t free = drip.pays_later ? passage.cost : 0;
    Note(findings, units - units_before,
         drip.burst + free + length.count() * drip.rate / drip.period.count(), passage);
  }
  return findings;
}

}  // namespace sluice::accuracy
