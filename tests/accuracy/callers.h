// Callers of a fleet: threads that send checks when they are due and record the outcomes.
//
// Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/arrivals.h"
#include "tests/accuracy/history.h"
#include "tests/accuracy/store_clock.h"
#include "tests/accuracy/subject.h"
#include "tests/system/fleet.h"

namespace sluice::accuracy {

class Callers {
 public:
  // `fleet` and `clock` must outlive this object.
  Callers(test::Fleet& fleet, const StoreClock& clock, int count)
      : fleet_(&fleet), clock_(&clock), count_(count) {}

  // Sends every arrival to every subject, on counters that no other `run` uses. Waits until all are
  // answered. Returns a history for each subject.
  std::vector<History> Send(const Arrivals& arrivals, const std::vector<Subject>& subjects,
                            const std::string& run);

 private:
  test::Fleet* fleet_;
  const StoreClock* clock_;
  int count_;
};

}  // namespace sluice::accuracy
