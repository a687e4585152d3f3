#include "replay/report.h"

#include <algorithm>
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace sluice::replay {
namespace {

std::string LeftOut(std::uint64_t lines) {
  return CountText(lines) + (lines == 1 ? " line is left out" : " lines are left out");
}

}  // namespace

std::vector<std::pair<std::string, DeniedKey>> MostDenied(const VirtualServer::RuleTally& rule) {
  std::vector<std::pair<std::string, DeniedKey>> keys(10);
  const auto end = std::partial_sort_copy(
      rule.denied_keys.begin(), rule.denied_keys.end(), keys.begin(), keys.end(),
      [](const auto& a, const auto& b) {
        return a.second.denied != b.second.denied ? a.second.denied > b.second.denied
                                                  : a.first < b.first;
      });
  keys.erase(end, keys.end());
  return keys;
}

std::vector<std::size_t> RulesByDenials(const VirtualServer& server) {
  std::vector<std::size_t> ids;
  for (std::size_t id = 0; id < server.rules().size(); ++id) {
    if (server.rules()[id].all.checked + server.rules()[id].skipped > 0) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, std::greater<>(),
                           [&](std::size_t id) { return server.rules()[id].all.denied; });
  return ids;
}

std::size_t WorstInterval(const Timeline& timeline, std::size_t series) {
  const auto& tallies = timeline.Of(series);
  const auto worst = std::ranges::max_element(tallies, {}, &Tally::denied);
  if (worst == tallies.end() || worst->denied == 0) return timeline.size();
  return static_cast<std::size_t>(worst - tallies.begin());
}

std::vector<std::string> NotesOn(const ReplayResult& result) {
  std::vector<std::string> notes;
  const LogFacts& log = result.log;
  if (!result.stopped.empty())
    notes.push_back("The replay ended before the end of the log: " + result.stopped + ".");
  if (log.not_understood > 0) {
    notes.push_back(LeftOut(log.not_understood) + ": not a request.");
  }
  if (log.late > 0) {
    notes.push_back(LeftOut(log.late) + ": later than --reorder allows.");
  }
  for (const LineFault& fault : log.faults) {
    notes.push_back(fmt::format("{}, line {}: {}.", fault.log, fault.line, fault.what));
  }
  for (const LogFacts::Field& field : log.numbers) {
    if (field.name.empty() || field.present > 0 || log.requests == 0) continue;
    notes.push_back(fmt::format("No line has the field of {}, so each request has {}.", field.name,
                                field.name == "--cost" ? "cost 1" : "amount 0"));
  }
  for (const LogFacts::Field& field : log.attributes) {
    if (field.present > 0 || log.requests == 0) continue;
    notes.push_back(fmt::format("No line has the attribute {0}: map it by --attribute {0}=$.FIELD.",
                                field.name));
  }
  if (result.server->refused() > 0) {
    notes.push_back(fmt::format("Refused requests: {}; the first error: {}.",
                                CountText(result.server->refused()), result.server->refusal()));
  }
  notes.emplace_back("All counters are new when the log begins.");
  return notes;
}

std::string SpanText(const ReplayResult& result) {
  if (result.last == Time()) return "none decided";
  return fmt::format("{} to {} UTC", TimeText(result.first), TimeText(result.last));
}

std::string TimeText(Time at) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::gmtime(seconds));
}

std::string ShareText(const Tally& tally) { return fmt::format("{:.3g} %", 100 * tally.share()); }

std::string CountText(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

}  // namespace sluice::replay
