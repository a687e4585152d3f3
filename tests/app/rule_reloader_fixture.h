// A RuleReloader whose rule files and limiter the test controls.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/rule_reloader.h"
#include "limiter/check_call.h"
#include "store/memory/memory_store.h"
#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::test {

inline constexpr std::chrono::seconds kTimeout(10);

// A domain with one rule, named `name`.
inline std::string RuleNamed(const std::string& name,
                             const std::string& limit = "limit: 5, window: 1h") {
  return "domain: shop\nrules:\n  - name: " + name +
         "\n    limits:\n      - {algorithm: " + "fixed_window, " + limit + "}\n";
}

class Call final : public CheckCall {
 public:
  using CheckCall::CheckCall;

  // Takes a unit. Returns the units that are left. REQUIRES: the rules have exactly one limit.
  std::int64_t TakeOne() {
    request.domain = "shop";
    Start();
    return remaining_;
  }

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override {
    remaining_ = static_cast<std::int64_t>(answer.value().limits.at(0).verdict.remaining);
  }

  std::int64_t remaining_ = -1;
};

class RuleReloaderTest : public testing::Test {
 protected:
  void Start(const std::filesystem::path& directory,
             std::chrono::milliseconds second_look = std::chrono::milliseconds(40)) {
    reloader_.emplace(RuleReloader::Dependencies{limiter_, metrics_, clock_},
                      RuleReloader::Options{.sources = {.directory = directory},
                                            .settle = std::chrono::milliseconds(20),
                                            .second_look = second_look},
                      IndexRules({.own = ReadRuleFiles(directory), .envoy = {}}));
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const auto rules = limiter_.rules();
    for (const IndexedRule& rule : rules->index->rules()) {
      names.push_back(rule.rule.name);
    }
    return names;
  }

  bool WaitForRules(const std::vector<std::string>& names) {
    return WaitUntil(kTimeout, [&] { return Names() == names; });
  }

  bool WaitForLines(std::string_view with, std::size_t count = 1) {
    return WaitUntil(kTimeout, [&] { return log_.Lines(with).size() >= count; });
  }

  double Metric(const std::string& name) { return metrics_.GaugeFor(name, "").Value(); }

  // Replaces the file by a rename, so nobody reads half a file.
  void Put(const std::string& text) {
    std::filesystem::rename(dir_.Write("next", text), dir_.path() / "rules/a.yaml");
  }

  CapturedLog log_;
  TempDir dir_;
  ManualClock clock_{Time(std::chrono::seconds(1'000'000))};
  MetricsRegistry metrics_;
  MemoryStore store_{clock_, {}};
  Fallback fallback_{clock_};
  Limiter limiter_{{.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_},
                   {}};
  Call call_{limiter_};
  std::optional<RuleReloader> reloader_;
};

}  // namespace sluice::test
