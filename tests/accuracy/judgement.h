// Holds what a subject did with a pattern of arrivals against its promise and against the ideal.
//
// Pure functions.
#pragma once

#include <string>

#include "tests/accuracy/history.h"
#include "tests/accuracy/promise.h"
#include "tests/accuracy/subject.h"

namespace sluice::accuracy {

// Of one subject; units, but for `checks` and `unknown`.
struct Judgement {
  std::int64_t checks = 0;
  std::int64_t unknown = 0;
  std::int64_t admitted = 0;
  Findings promise;
  // The most in any interval of the window's length, whatever is promised.
  std::int64_t densest = 0;
  std::int64_t ideal = 0;
  // Over all counters, what is missing to the least that may be expected, and what is beyond the
  // most.
  std::int64_t missing = 0;
  std::int64_t surplus = 0;

  double UnderPercent() const;
  void Add(const Judgement& other);

  // What is wrong; empty if nothing is. Checks of unknown outcome may have been charged, so up to
  // as many units may be missing; more than one in a hundred of them is wrong by itself.
  std::string Mistake() const;
};

Judgement Judge(const Subject& subject, const History& history);

}  // namespace sluice::accuracy
