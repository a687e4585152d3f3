#include "tools/answer_text.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "client/duration.h"
#include "tools/text.h"

namespace sluice::tools {
namespace {

std::string LevelText(const v1::LimitStatus& limit) {
  if (!limit.has_limit()) return "state unknown";
  return fmt::format("{} of {} left", limit.remaining(), limit.limit());
}

// Whether `a` has more influence on the decision than `b`. Denying limits come before admitting
// limits, and longer denials before shorter denials. If both limits admit, the limit that has the
// smaller share of its units left comes first.
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
    const bool decides = deciding == nullptr || DecidesMore(limit, *deciding);
    if (decides && !limit.shadow()) deciding = &limit;
  }
  return deciding;
}

bool Counts(const v1::LimitStatus& limit) { return limit.algorithm() != v1::ALGORITHM_UNSPECIFIED; }

// "no attribute user, attribute client_ip is not an IP address"
std::string MissingText(const v1::CheckLimitRequest& request,
                        const v1::CheckLimitResponse& response, const std::string& rule) {
  std::vector<std::string> parts;
  for (const v1::MissingAttribute& missing : response.missing_attributes()) {
    if (missing.rule() != rule) continue;
    parts.push_back(request.attributes().contains(missing.attribute())
                        ? fmt::format("attribute {} is not an IP address", missing.attribute())
                        : fmt::format("no attribute {}", missing.attribute()));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ReasonText(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response,
                       const DecisionContext& context) {
  if (response.unknown_domain()) {
    return fmt::format("no rules for domain {}{}", request.domain(), context.domain_hint);
  }
  if (response.source() == v1::SOURCE_NO_RULE) {
    if (response.limits_size() > 0) return "only shadow rules count this request";
    return fmt::format("no rule of domain {} {}", request.domain(),
                       response.missing_attributes().empty() ? "matches" : "counts this request");
  }
  if (response.source() == v1::SOURCE_RULE && !context.ruled_by.empty()) {
    return "by " + context.ruled_by;
  }
  if (const v1::LimitStatus* limit = DecidingLimit(response)) {
    if (!Counts(*limit)) {
      const std::string missing = MissingText(request, response, limit->rule());
      return fmt::format("by {} ({})", limit->rule(), missing.empty() ? "blocked" : missing);
    }
    return fmt::format("by {} ({} {})", limit->rule(), AlgorithmText(limit->algorithm()),
                       LevelText(*limit));
  }
  return "by a rule without counters (sluice explain names it)";
}

// The units of a charge are taken even if the decision is DENIED.
std::string_view VerdictText(const v1::CheckLimitRequest& request,
                             const v1::CheckLimitResponse& response) {
  const bool allowed = response.decision() == v1::DECISION_ALLOWED;
  if (WasCharged(request, response)) return allowed ? "CHARGED" : "CHARGED over the limit";
  return allowed ? "ALLOWED" : "DENIED";
}

std::string_view SourceText(v1::Source source) {
  if (source == v1::SOURCE_FALLBACK) return "  [the store failed; on_store_failure decided]";
  if (source == v1::SOURCE_DENY_CACHE) return "  [denied by the deny cache, without the store]";
  if (source == v1::SOURCE_GRANT) return "  [decided with prefetched units, without the store]";
  return "";
}

std::string LimitForecast(const v1::LimitStatus& limit) {
  std::vector<std::string> parts;
  if (limit.has_reset_after() && ToDuration(limit.reset_after()) > Duration::zero()) {
    parts.push_back(fmt::format("resets in {}", HumanDuration(ToDuration(limit.reset_after()))));
  }
  if (!limit.admitted()) {
    parts.push_back(
        limit.has_retry_after()
            ? fmt::format("denies for {}", HumanDuration(ToDuration(limit.retry_after())))
            : "never admits this cost");
  }
  if (limit.dropped_cost() > 0) {
    parts.push_back(fmt::format("{} not charged: maximum debt reached", limit.dropped_cost()));
  }
  return fmt::format("{}{}", fmt::join(parts, ", "), limit.shadow() ? " (shadow)" : "");
}

// One line for each rule that could not count the request and is not among the limits.
std::string SkippedText(const v1::CheckLimitRequest& request,
                        const v1::CheckLimitResponse& response) {
  std::set<std::string_view> told;
  for (const v1::LimitStatus& limit : response.limits()) {
    if (!Counts(limit)) told.insert(limit.rule());
  }
  std::string text;
  for (const v1::MissingAttribute& missing : response.missing_attributes()) {
    if (!told.insert(missing.rule()).second) continue;
    text += fmt::format("  {} was skipped: {}\n", missing.rule(),
                        MissingText(request, response, missing.rule()));
  }
  return text;
}

// Whether a limit counts a number of units that differs from the request's cost.
bool CountsOtherUnits(const v1::CheckLimitRequest& request,
                      const v1::CheckLimitResponse& response) {
  const std::uint64_t cost = request.has_cost() ? request.cost() : 1;
  return std::ranges::any_of(response.limits(), [cost](const v1::LimitStatus& limit) {
    return Counts(limit) && limit.units() != cost;
  });
}

// One line for each amount that no limit counts.
std::string IgnoredText(const google::protobuf::RepeatedPtrField<std::string>& amounts,
                        const std::string& why) {
  std::string text;
  for (const auto& it : amounts) text += fmt::format("  amount {} was ignored: {}\n", it, why);
  return text;
}

std::string OutcomeText(v1::Outcome outcome) {
  if (outcome == v1::OUTCOME_SETTLED) return "SETTLED";
  if (outcome == v1::OUTCOME_ALREADY_SETTLED) return "ALREADY SETTLED  nothing has changed";
  if (outcome == v1::OUTCOME_NOT_FOUND) {
    return "NOT FOUND  the lease ended more than 10 minutes ago, or was never taken";
  }
  if (outcome == v1::OUTCOME_QUEUED) {
    return "QUEUED  the store is unavailable; the lease is settled when the store answers again";
  }
  return "unknown";
}

}  // namespace

bool WasCharged(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response) {
  return request.mode() == v1::MODE_CHARGE &&
         std::ranges::any_of(response.limits(), [](const v1::LimitStatus& limit) {
           return Counts(limit) && limit.units() > 0;
         });
}

std::string AlgorithmText(v1::Algorithm algorithm) {
  std::string_view name = v1::Algorithm_Name(algorithm);
  name.remove_prefix(std::min(name.size(), std::string_view("ALGORITHM_").size()));
  return Lowercase(name);
}

std::string DecisionText(const v1::CheckLimitRequest& request,
                         const v1::CheckLimitResponse& response, const DecisionContext& context) {
  const bool allowed = response.decision() == v1::DECISION_ALLOWED;
  std::string line =
      fmt::format("{}  {}", VerdictText(request, response), ReasonText(request, response, context));
  if (response.has_wait()) {
    line += fmt::format("  {} {}", context.waited ? "waited" : "start in",
                        HumanDuration(ToDuration(response.wait())));
  }
  if (!allowed && response.has_retry_after()) {
    line += fmt::format("  retry in {}", HumanDuration(ToDuration(response.retry_after())));
  } else if (!allowed && !WasCharged(request, response)) {
    line += "  a retry cannot help";
  }
  return fmt::format("{}{}\n", line, SourceText(response.source()));
}

std::string LimitStateText(const v1::LimitStatus& limit) {
  const std::string outlook = LimitForecast(limit);
  return LevelText(limit) + (outlook.empty() ? "" : "  " + outlook);
}

std::string AnswerText(const v1::CheckLimitRequest& request, const v1::CheckLimitResponse& response,
                       const DecisionContext& context) {
  struct Row {
    std::string name, algorithm, level, units, outlook;
  };
  const bool shows_units = CountsOtherUnits(request, response);
  std::vector<Row> rows;
  for (const v1::LimitStatus& limit : response.limits()) {
    if (!Counts(limit)) continue;  // it has no counter to show
    rows.push_back({fmt::format("{}[{}]", limit.rule(), limit.index()),
                    AlgorithmText(limit.algorithm()), LevelText(limit),
                    shows_units ? fmt::format("units {}", limit.units()) : "",
                    LimitForecast(limit)});
  }
  const auto width = [&rows](std::string Row::*column) {
    std::size_t most = 0;
    for (const Row& row : rows) most = std::max(most, (row.*column).size());
    return most;
  };
  std::string text = DecisionText(request, response, context);
  for (const Row& row : rows) {
    text += fmt::format("  {:<{}}  {:<{}}  {:>{}}", row.name, width(&Row::name), row.algorithm,
                        width(&Row::algorithm), row.level, width(&Row::level));
    if (shows_units) text += fmt::format("  {:>{}}", row.units, width(&Row::units));
    if (!row.outlook.empty()) text += "  " + row.outlook;
    text += "\n";
  }
  if (request.has_lease_ttl() && response.has_lease()) {
    text += fmt::format("  lease for {}: {}\n", HumanDuration(ToDuration(response.lease().ttl())),
                        response.lease().id());
  }
  return text + SkippedText(request, response) +
         IgnoredText(response.uncounted_amounts(),
                     fmt::format("no rule of domain {} counts it", request.domain()));
}

std::string HeldText(const v1::LimitStatus& limit) {
  return fmt::format("{}[{}]  {}  held {}", limit.rule(), limit.index(),
                     AlgorithmText(limit.algorithm()), limit.held());
}

std::string SettlementText(const v1::SettleLeaseResponse& response) {
  std::string text = OutcomeText(response.outcome()) + "\n";
  for (const v1::LimitStatus& it : response.limits()) {
    text += fmt::format("  {}, used {}  {}\n", HeldText(it), it.units(), LimitStateText(it));
  }
  return text + IgnoredText(response.uncounted_amounts(), "no limit of the lease counts it");
}

}  // namespace sluice::tools
