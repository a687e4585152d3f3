// Admin operations on a limiter whose stores answer at once.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/explain.h"
#include "admin/reset_limit.h"

namespace sluice::test {

class Explaining final : public ExplainCall {
 public:
  using Show = std::function<void(const Explanation&)>;

  Explaining(Limiter& limiter, Show show) : ExplainCall(limiter), show_(std::move(show)) {}

  std::optional<Result<void>> result;

 private:
  void OnExplained(const Result<Explanation>& explanation) override {
    result = explanation ? Result<void>() : Result<void>(explanation.error());
    if (explanation) show_(*explanation);
  }

  const Show show_;
};

class Resetting final : public ResetCall {
 public:
  using ResetCall::ResetCall;

  std::optional<Result<std::vector<std::string>>> keys;

 private:
  void OnReset(Result<std::vector<std::string>> reset) override { keys = std::move(reset); }
};

// Calls `show` with the explanation of the request. If there is an error, only returns the error.
inline Result<void> Explain(Limiter& limiter, const CheckRequest& request, Explaining::Show show) {
  Explaining call(limiter, std::move(show));
  call.Start(request);
  return call.result.value();
}

inline Result<std::vector<std::string>> ResetLimit(Limiter& limiter, const CheckRequest& request,
                                                   std::string_view rule) {
  Resetting call(limiter);
  call.Start(request, rule);
  return call.keys.value();
}

}  // namespace sluice::test
