#include "tools/answer_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "client/duration.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

std::string LevelText(const v1::LimitStatus& limit) {
  if (!limit.has_limit()) return "state unknown";
  return fmt::format("{} of {} left", limit.remaining(), limit.limit());
}

// Orders limits by their influence on the decision: first denying limits, the longest denial first,
// then limits by the share that is left, the smallest first.
bool DecidesMore(const v1::LimitStatus& a, const v1::LimitStatus& b) {
  if (a.admitted() != b.admitted()) return !a.admitted();
  if (!a.admitted()) {
    if (a.has_retry_after() != b.has_retry_after()) return !a.has_retry_after();
    return ToDuration(a.retry_after()) > ToDuration(b.retry_after());
  }
  if (a.has_limit() != b.has_limit()) return a.has_limit();
  const auto share_left = [](const v1::LimitStatus& limit) {
    return static_cast<double>(limit.remaining()) /
           static_cast<double>(std::max<std::uint64_t>(limit.limit(), 1));
  };
  return share_left(a) < share_left(b);
}

const v1::LimitStatus* DecidingLimit(const v1::CheckLimitResponse& response) {
  const v1::LimitStatus* deciding = nullptr;
  for (const v1::LimitStatus& limit : response.limits()) {
    if (limit.shadow()) continue;
    if (deciding == nullptr || DecidesMore(limit, *deciding)) deciding = &limit;
  }
  return deciding;
}

std::string ReasonText(const std::string& domain, const v1::CheckLimitResponse& response,
                       const std::string& ruled_by) {
  if (response.source() == v1::SOURCE_NO_RULE) {
    return fmt::format("no rule of domain {} matches", domain);
  }
  if (response.source() == v1::SOURCE_RULE && !ruled_by.empty()) return "by " + ruled_by;
  if (const v1::LimitStatus* limit = DecidingLimit(response)) {
    return fmt::format("by {} ({} {})", limit->rule(), AlgorithmText(limit->algorithm()),
                       LevelText(*limit));
  }
  return "by a rule without counters (sluice explain names it)";
}

std::string_view SourceText(v1::Source source) {
  switch (source) {
    case v1::SOURCE_FALLBACK:
      return "  [the store failed; on_store_failure decided]";
    case v1::SOURCE_DENY_CACHE:
      return "  [denied by the deny cache, without the store]";
    default:
      return "";
  }
}

std::string LimitForecast(const v1::LimitStatus& limit) {
  std::string text;
  if (limit.has_reset_after() && ToDuration(limit.reset_after()) > Duration::zero()) {
    text = fmt::format("resets in {}", HumanDuration(ToDuration(limit.reset_after())));
  }
  if (!limit.admitted()) {
    if (!text.empty()) text += ", ";
    text += limit.has_retry_after()
                ? fmt::format("denies for {}", HumanDuration(ToDuration(limit.retry_after())))
                : "never admits this cost";
  }
  if (limit.dropped_cost() > 0) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} not charged: maximum debt reached", limit.dropped_cost());
  }
  if (limit.shadow()) text += " (shadow)";
  return text;
}

}  // namespace

std::string AlgorithmText(v1::Algorithm algorithm) {
  std::string_view name = v1::Algorithm_Name(algorithm);
  name.remove_prefix(std::min(name.size(), std::string_view("ALGORITHM_").size()));
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string DecisionText(const std::string& domain, const v1::CheckLimitResponse& response,
                         const DecisionContext& context) {
  const bool allowed = response.decision() == v1::DECISION_ALLOWED;
  std::string line = fmt::format("{}  {}", allowed ? "ALLOWED" : "DENIED",
                                 ReasonText(domain, response, context.ruled_by));
  if (response.has_wait()) {
    line += fmt::format("  {} {}", context.waited ? "waited" : "start in",
                        HumanDuration(ToDuration(response.wait())));
  }
  if (!allowed && response.has_retry_after()) {
    line += fmt::format("  retry in {}", HumanDuration(ToDuration(response.retry_after())));
  } else if (!allowed) {
    line += "  a retry cannot help";
  }
  line += SourceText(response.source());
  return line + "\n";
}

std::string LimitStateText(const v1::LimitStatus& limit) {
  const std::string outlook = LimitForecast(limit);
  return LevelText(limit) + (outlook.empty() ? "" : "  " + outlook);
}

std::string AnswerText(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response,
                       bool waited) {
  struct Row {
    std::string name, algorithm, level, outlook;
  };
  std::vector<Row> rows;
  for (const v1::LimitStatus& limit : response.limits()) {
    rows.push_back({fmt::format("{}[{}]", limit.rule(), limit.index()),
                    AlgorithmText(limit.algorithm()), LevelText(limit), LimitForecast(limit)});
  }
  const auto width = [&rows](std::string Row::*column) {
    std::size_t most = 0;
    for (const Row& row : rows) most = std::max(most, (row.*column).size());
    return most;
  };
  std::string text = DecisionText(request.domain(), response, {.waited = waited});
  for (const Row& row : rows) {
    text += fmt::format("  {:<{}}  {:<{}}  {:>{}}{}{}\n", row.name, width(&Row::name),
                        row.algorithm, width(&Row::algorithm), row.level, width(&Row::level),
                        row.outlook.empty() ? "" : "  ", row.outlook);
  }
  return text;
}

}  // namespace sluice::tools
