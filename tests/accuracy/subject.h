// An algorithm under test: its rule, what it promises, and what an exact one would have done. To
// test another, add a row to Subjects().
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/accuracy/history.h"
#include "tests/accuracy/promise.h"

namespace sluice::accuracy {

inline constexpr char kDomain[] = "accuracy";

// The same for all algorithms, so that they can be compared: `limit` units per `window`, as a rate
// with a burst of `limit` where an algorithm has those.
struct Size {
  std::int64_t limit = 100;
  std::chrono::seconds window{1};
};

using Promise = std::function<Findings(const Passages& admitted)>;
using Ideal = std::function<std::int64_t(const Passages& checks)>;

struct Subject {
  std::string name;
  std::string limit;  // YAML
  Size size;
  Promise promise;
  Ideal ideal;
  // The least and the most an algorithm that keeps its promise admits of checks that all cost the
  // same. Unset: exactly the ideal.
  Ideal least;
  Ideal most;
  std::optional<Duration> max_wait;  // of its checks

  // The name of its rule, and the endpoint that rule matches.
  std::string Rule() const;
};

std::vector<Subject> Subjects(const Size& size);

// Whether servers may deny what they know to be full.
enum class DenyCache { kOn, kOff };

// The rules for all of them, with a counter per user. Where Redis does not answer, nothing is
// admitted, so that only Redis' own decisions are measured.
std::string RulesOf(const std::vector<Subject>& subjects, DenyCache deny_cache);

}  // namespace sluice::accuracy
