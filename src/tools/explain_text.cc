#include "tools/explain_text.h"

#include <map>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "base/text.h"
#include "tools/admin_call.h"
#include "tools/answer_text.h"

namespace sluice::tools {
namespace {

// The rule that allows without counting, or an empty string.
std::string AllowedBy(const v1::ExplainResponse& answer) {
  if (answer.response().decision() == v1::DECISION_DENIED) return "";
  for (const v1::ExplainedRule& rule : answer.rules()) {
    if (rule.effect() == "unlimited") return rule.rule() + " (unlimited)";
  }
  return "";
}

std::string GrantsText(const v1::ExplainedCounter& counter) {
  std::string text;
  std::uint64_t units = 0;
  for (const v1::GrantsOut& grants : counter.grants()) {
    units += grants.units();
    text += fmt::format("{}{} until {}", text.empty() ? "" : ", ", grants.units(),
                        google::protobuf::util::TimeUtil::ToString(grants.end()));
  }
  if (units == 0) return "";
  const v1::LimitStatus& status = counter.status();
  const bool would_admit = !status.admitted() && status.units() <= status.remaining() + units;
  return fmt::format("      servers hold {} units (prefetch): {}{}\n", units, text,
                     would_admit ? "; checks are denied until servers return units" : "");
}

std::string RuleText(const v1::ExplainedRule& rule) {
  std::string text = fmt::format("  {}  {}{}{}\n", rule.rule(), rule.effect(),
                                 rule.reason().empty() ? "" : ": ", rule.reason());
  for (const v1::ExplainedCounter& counter : rule.counters()) {
    const std::string counts = CountsText({counter.counts().begin(), counter.counts().end()});
    text += fmt::format("    {}{}  {}\n      {}\n", AlgorithmText(counter.status().algorithm()),
                        counts == "cost" ? "" : fmt::format(" of {}", counts),
                        LimitStateText(counter.status()), PrintableText(counter.key())) +
            GrantsText(counter);
  }
  return text;
}

std::string LeaseText(const v1::ExplainedLease& lease) {
  if (!lease.open()) {
    return "The lease holds nothing: it was settled, ended too long ago, or was never taken\n";
  }
  using google::protobuf::util::TimeUtil;
  const bool ended = lease.ends_at() < TimeUtil::GetCurrentTime();
  std::string text =
      fmt::format("{} at {}, can be settled until 10 minutes after its end\n",
                  ended ? "ENDED" : "OPEN  ends", TimeUtil::ToString(lease.ends_at()));
  for (const v1::ExplainedCounter& counter : lease.counters()) {
    text += fmt::format("  {} of {}  {}\n    {}\n", HeldText(counter.status()),
                        CountsText({counter.counts().begin(), counter.counts().end()}),
                        LimitStateText(counter.status()), PrintableText(counter.key()));
  }
  for (const auto& [name, value] :
       std::map<std::string, std::uint64_t>(lease.amounts().begin(), lease.amounts().end())) {
    text += fmt::format("  taken with {}={}\n", PrintableText(name), value);
  }
  return text;
}

}  // namespace

std::string CountsText(const std::map<std::string, std::uint64_t>& counts) {
  std::string text;
  for (const auto& [name, weight] : counts) {
    if (!text.empty()) text += " + ";
    if (weight != 1) text += fmt::format("{} ", weight);
    text += name;
  }
  return text;
}

std::string ExplainText(const v1::CheckLimitRequest& request, const v1::ExplainResponse& answer,
                        const std::string& domain_hint) {
  if (answer.has_lease()) return LeaseText(answer.lease());
  std::string text = DecisionText(request, answer.response(),
                                  {.ruled_by = AllowedBy(answer), .domain_hint = domain_hint});
  for (const v1::ExplainedRule& rule : answer.rules()) text += RuleText(rule);
  if (answer.rules().empty()) text += "  sluice rules lists the domains and their rules\n";
  if (answer.has_xds()) text += XdsText(answer.xds(), "  ");
  return text;
}

}  // namespace sluice::tools
