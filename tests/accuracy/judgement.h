// Compares the admissions of a subject with its promise and with the ideal.
//
// Pure functions.
#pragma once

#include <string>

#include "tests/accuracy/history.h"
#include "tests/accuracy/promise.h"
#include "tests/accuracy/subject.h"

namespace sluice::accuracy {

// The result for one subject. In units, except for `checks` and `unknown`.
struct Judgement {
  std::int64_t checks = 0;
  std::int64_t unknown = 0;
  std::int64_t admitted = 0;
  Findings promise;
  // The most units admitted in any interval as long as the window, whatever the promise says. For
  // slots: the most held at once.
  std::int64_t densest = 0;
  std::int64_t ideal = 0;
  // Summed over all counters. `missing`: units below the expected minimum. `surplus`: units above
  // the expected maximum.
  std::int64_t missing = 0;
  std::int64_t surplus = 0;

  double UnderPercent() const;
  void Add(const Judgement& other);

  // A description of what is wrong; empty if nothing is. Checks of unknown outcome may have been
  // charged, so one unit may be missing for each of them. If more than 1 % of the checks have an
  // unknown outcome, that is also an error.
  std::string Mistake() const;
};

Judgement Judge(const Subject& subject, const History& history);

}  // namespace sluice::accuracy
