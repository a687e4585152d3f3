#include "tools/replay_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "client/message_json.h"
#include "config/rule_yaml.h"
#include "replay/report.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;
using replay::CountText;
using replay::ShareText;
using replay::SpanText;
using replay::Suggestion;
using replay::Tally;
using replay::Timeline;
using replay::TimeText;
using replay::VirtualServer;

std::string RuleText(const VirtualServer& server, std::size_t id) {
  const VirtualServer::RuleTally& tally = server.rules()[id];
  const auto& rule = server.index().rules()[id].rule;
  const std::string name = rule.name + (rule.shadow ? " (shadow)" : "");
  std::string text = fmt::format("{:<32} {:>13} {:>13} {:>9}\n", name, CountText(tally.all.checked),
                                 CountText(tally.all.denied), ShareText(tally.all));
  if (tally.skipped > 0) {
    text += fmt::format("  skipped for lack of an attribute: {}\n", CountText(tally.skipped));
  }
  const Timeline& timeline = server.timeline();
  const std::size_t worst = WorstInterval(timeline, 1 + id);
  if (worst < timeline.size()) {
    const Tally& then = timeline.Of(1 + id)[worst];
    text += fmt::format("  most denials in the {} s from {}: {} of {}\n", timeline.length().count(),
                        TimeText(timeline.StartOf(worst)), CountText(then.denied),
                        CountText(then.checked));
  }
  if (!tally.denied_keys.empty()) {
    text +=
        fmt::format("  keys denied: {}; those denied most:\n", CountText(tally.denied_keys.size()));
  }
  for (const auto& [key, denied] : MostDenied(tally)) {
    text += fmt::format("    {}: {}, {} to {}\n", PrintableText(key), CountText(denied.denied),
                        TimeText(denied.first), TimeText(denied.last));
  }
  return text;
}

std::string ServerText(const VirtualServer& server) {
  const Tally& all = server.all();
  std::string text =
      fmt::format("denied {} of {} requests ({}); {} matched no rule\n\n", CountText(all.denied),
                  CountText(all.checked), ShareText(all), CountText(server.unmatched()));
  text += fmt::format("{:<32} {:>13} {:>13} {:>9}\n", "rule", "checked", "denied", "share");
  for (const std::size_t id : RulesByDenials(server)) text += RuleText(server, id);
  return text;
}

Json SeriesJson(const Timeline& timeline, std::size_t series) {
  Json list = Json::array();
  for (const Tally& tally : timeline.Of(series)) list.push_back({tally.checked, tally.denied});
  return list;
}

Json RuleJson(const VirtualServer& server, std::size_t id) {
  const VirtualServer::RuleTally& tally = server.rules()[id];
  const auto& rule = server.index().rules()[id].rule;
  Json keys = Json::array();
  for (const auto& [key, denied] : MostDenied(tally)) {
    keys.push_back({{"key", key},
                    {"denied", denied.denied},
                    {"first", TimeText(denied.first)},
                    {"last", TimeText(denied.last)}});
  }
  return {{"rule", rule.name},
          {"shadow", rule.shadow},
          {"checked", tally.all.checked},
          {"denied", tally.all.denied},
          {"skipped", tally.skipped},
          {"keys_denied", tally.denied_keys.size()},
          {"most_denied", keys},
          {"over_time", SeriesJson(server.timeline(), 1 + id)}};
}

Json ServerJson(const VirtualServer& server) {
  Json rules = Json::array();
  for (std::size_t id = 0; id < server.rules().size(); ++id) rules.push_back(RuleJson(server, id));
  return {{"checked", server.all().checked},
          {"denied", server.all().denied},
          {"unmatched", server.unmatched()},
          {"refused", server.refused()},
          {"counters", server.counters()},
          {"over_time",
           {{"start", TimeText(server.timeline().StartOf(0))},
            {"seconds", server.timeline().length().count()},
            {"checked_denied", SeriesJson(server.timeline(), 0)}}},
          {"rules", rules}};
}

std::string FoundText(const Suggestion::Group& found) {
  const std::string name = fmt::format("# {}: ", found.name);
  if (found.now.checked == 0) return name + "no request matched; unchanged\n";
  const std::string now =
      fmt::format("denied {} of {}", ShareText(found.now), CountText(found.now.checked));
  if (!found.possible())
    return name + now + ", and too many even with a limit 200,000 times as large; unchanged\n";
  return name + fmt::format("{}; times {:.4g}: {}\n", now, found.factor(), ShareText(found.then));
}

}  // namespace

std::string ReplayText(const replay::ReplayResult& result) {
  std::string text =
      fmt::format("{} requests, {}\n", CountText(result.log.requests), SpanText(result));
  text += ServerText(*result.server);
  if (result.against != nullptr) {
    text += fmt::format("\nagainst the other rules: {} requests newly denied, {} newly allowed\n",
                        CountText(result.newly_denied), CountText(result.newly_allowed));
    text += "the other rules: " + ServerText(*result.against);
  }
  text += '\n';
  for (const std::string& note : NotesOn(result)) text += note + "\n";
  return text;
}

std::string ReplayJson(const replay::ReplayResult& result) {
  Json faults = Json::array();
  for (const replay::LineFault& it : result.log.faults) {
    faults.push_back({{"log", it.log}, {"line", it.line}, {"what", it.what}});
  }
  const bool decided = result.last != Time();
  Json json = {{"lines", result.log.lines},
               {"requests", result.log.requests},
               {"not_understood", result.log.not_understood},
               {"late", result.log.late},
               {"faults", faults},
               {"first", decided ? Json(TimeText(result.first)) : Json()},
               {"last", decided ? Json(TimeText(result.last)) : Json()},
               {"stopped", result.stopped},
               {"result", ServerJson(*result.server)}};
  if (result.against != nullptr) {
    json["newly_denied"] = result.newly_denied;
    json["newly_allowed"] = result.newly_allowed;
    json["against"] = ServerJson(*result.against);
  }
  json["notes"] = NotesOn(result);
  return JsonText(json);
}

std::string SuggestionText(const Suggestion& suggestion) {
  std::string text;
  for (const Suggestion::Group& found : suggestion.groups()) text += FoundText(found);
  return text + ToYaml(suggestion.Suggested());
}

std::string SuggestionJson(const Suggestion& suggestion) {
  Json list = Json::array();
  for (const Suggestion::Group& found : suggestion.groups()) {
    list.push_back({{"rule", found.name},
                    {"possible", found.possible()},
                    {"factor", found.factor()},
                    {"checked", found.now.checked},
                    {"denied_now", found.now.denied},
                    {"denied_then", found.then.denied}});
  }
  return JsonText({{"limits", list}, {"rules", ToYaml(suggestion.Suggested())}});
}

}  // namespace sluice::tools
