// An algorithm under test: its rule, its promise, and its exact counterpart. To test another
// algorithm, add a row to Subjects().
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

// The limit, the same for all algorithms: `limit` units per `window`. Algorithms with a rate get an
// equivalent rate and a burst of `limit`.
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
  // The minimum and the maximum that a correct implementation admits if all checks of a counter
  // have the same cost. If `least` or `most` is not set, `ideal` replaces it.
  Ideal least;
  Ideal most;
  std::optional<Duration> max_wait;  // of its checks

  // The name of its rule, which is also the endpoint that the rule matches.
  std::string Rule() const;
};

std::vector<Subject> Subjects(const Size& size);

// Whether the servers' deny caches are enabled.
enum class DenyCache { kOn, kOff };

// The rules for all subjects, with a counter for each user. If Redis does not answer, checks fail
// with an error, so that only Redis' decisions are measured.
std::string RulesOf(const std::vector<Subject>& subjects, DenyCache deny_cache);

}  // namespace sluice::accuracy
