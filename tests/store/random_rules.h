// Random limits of every algorithm, from a seed. Each subject has two limits, like a rule and its
// override. A limit may change before it is used, as in a reload. Limits of one subject that have
// the same shape share counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include "core/algorithm/limit.h"

namespace sluice::test {

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}

  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Below(of.size())];
  }
  std::size_t Below(std::size_t bound) { return engine_() % bound; }
  bool OneIn(std::size_t n) { return Below(n) == 0; }

 private:
  std::mt19937 engine_;
};

class RandomRules {
 public:
  explicit RandomRules(Random& random);

  // A limit in force, and the name of its counter. Valid as long as the RandomRules object.
  struct Rule {
    std::string key;
    const Limit* limit;
  };
  Rule Next();

 private:
  // Another limit of the same algorithm, mostly of the same shape.
  Limit Changed(const Limit& limit);
  const Limit* Keep(const Limit& limit);

  struct Subject {
    std::string name;
    std::vector<const Limit*> limits;
  };

  Random& random_;
  std::deque<Limit> kept_;  // all limits that ever were in force
  std::vector<Subject> subjects_;
  std::size_t busy_ = 0;  // a few subjects from this index on are used often
};

}  // namespace sluice::test
