#include "load/schedule.h"

#include <utility>

namespace sluice::load {
namespace {

// Multiplies instead of adding up, so that rounding errors do not accumulate.
SteadyTime StartOf(std::uint64_t number, SteadyTime begin, std::chrono::duration<double> interval) {
  return begin +
         std::chrono::duration_cast<SteadyTime::duration>(static_cast<double>(number) * interval);
}

}  // namespace

Schedule::Schedule(SteadyTime begin, SteadyTime end, const Pace& pace)
    : begin_(begin), end_(end), next_(StartOf(pace.first, begin, pace.interval)), pace_(pace) {}

SteadyTime Schedule::Take(SteadyTime now) {
  --left_;
  if (!is_open()) return now;
  pace_.first += pace_.step;
  return std::exchange(next_, StartOf(pace_.first, begin_, pace_.interval));
}

}  // namespace sluice::load
