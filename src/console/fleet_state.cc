#include "console/fleet_state.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "match/counter_key.h"

namespace sluice {
namespace {

// The sum of several servers' histograms. Servers of the same version have the same bounds. A
// histogram is left out if its bounds differ from those of the first histogram.
struct Latencies {
  std::vector<double> bounds;
  std::vector<std::uint64_t> counts;

  void Add(const v1::LatencyHistogram& more) {
    if (bounds.empty()) {
      bounds.assign(more.bounds().begin(), more.bounds().end());
      counts.assign(bounds.size() + 1, 0);
    }
    if (!std::ranges::equal(bounds, more.bounds())) return;
    const auto size = std::min(counts.size(), static_cast<std::size_t>(more.counts_size()));
    for (std::size_t i = 0; i < size; ++i) counts[i] += more.counts(static_cast<int>(i));
  }

  // In microseconds. If the quantile is above all bounds, returns the last bound.
  std::optional<double> Quantile(double share) const {
    const std::uint64_t all = Total();
    if (all == 0) return std::nullopt;
    double left = share * static_cast<double>(all);
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      const auto count = static_cast<double>(counts[i]);
      const double from = i == 0 ? 0 : bounds[i - 1];
      if (count > 0 && left <= count) return 1e6 * (from + (bounds[i] - from) * left / count);
      left -= count;
    }
    return 1e6 * bounds.back();
  }

  std::uint64_t Total() const {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }

  LatencyState State() const { return {.p50 = Quantile(0.5), .p99 = Quantile(0.99)}; }
};

void Accumulate(const DecisionRate& more, DecisionRate& to) {
  to.allowed += more.allowed;
  to.denied += more.denied;
}

double SecondsOf(const v1::WatchFrame& frame) {
  const auto whole = static_cast<double>(frame.period().seconds());
  const double seconds = whole + frame.period().nanos() / 1e9;
  return seconds > 0 ? seconds : 1;
}

using Rules = std::map<std::pair<std::string, std::string>, RuleState>;
using Keys = std::map<std::string, KeyState>;  // by digest

// Adds a server's decisions by one rule to `rules`. Unless the rule is a shadow rule, adds them to
// `sum`, too.
void AddRule(const v1::WatchedRule& from, double seconds, Rules& rules, DecisionRate& sum) {
  RuleState& rule = rules[{from.domain(), from.rule()}];
  rule.domain = from.domain();
  rule.rule = from.rule();
  rule.shadow = from.shadow();
  for (const v1::SourceDecisions& it : from.decisions()) {
    const DecisionRate rate{.allowed = static_cast<double>(it.allowed()) / seconds,
                            .denied = static_cast<double>(it.denied()) / seconds};
    const bool known = v1::Source_IsValid(it.source());
    Accumulate(rate, rule.by_source[known ? static_cast<std::size_t>(it.source()) : 0]);
    Accumulate(rate, rule.rate);
    if (!rule.shadow) Accumulate(rate, sum);
  }
}

// A server reports only its 100 highest counts, so a key's sum may lack some servers' counts.
void AddKeys(const google::protobuf::RepeatedPtrField<v1::WatchedKey>& from, Keys& to) {
  for (const v1::WatchedKey& it : from) {
    KeyState& key = to[it.digest()];
    key.domain = it.domain();
    key.rule = it.rule();
    key.limit = it.limit();
    if (key.key.empty()) key.key = it.key();
    if (key.subject.empty()) key.subject = SubjectOf(it.key());
    key.digest = it.digest();
    key.count += it.count();
    key.error += it.error();
  }
}

std::vector<KeyState> Sorted(Keys& keys) {
  std::vector<KeyState> sorted;
  for (auto& [digest, key] : keys) sorted.push_back(std::move(key));
  std::ranges::stable_sort(sorted, std::greater<>(), &KeyState::count);
  return sorted;
}

using Json = nlohmann::ordered_json;

Json ToJson(const LatencyState& from) {
  return {{"p50_us", from.p50 ? Json(*from.p50) : Json()},
          {"p99_us", from.p99 ? Json(*from.p99) : Json()}};
}

Json ToJson(const ServerState& from) {
  return {{"name", from.name},
          {"answers", from.answers},
          {"error", from.error.empty() ? Json() : Json(from.error)},
          {"checks_per_second", from.checks_per_second},
          {"allowed_per_second", from.rate.allowed},
          {"denied_per_second", from.rate.denied},
          {"check_latency", ToJson(from.checks)},
          {"store",
           {{"kind", from.store.redis() ? "redis" : "embedded"},
            {"connections", from.store.connections()},
            {"ready", from.store.ready()},
            {"breakers_open", from.store.breakers_open()},
            {"waiting", from.store.waiting()},
            {"failures", from.store.failures()}}},
          {"fleet_servers", from.fleet_servers},
          {"fleet_share", from.fleet_share}};
}

Json ToJson(const RuleState& from) {
  Json sources = Json::object();
  for (std::size_t i = 1; i < from.by_source.size(); ++i) {
    const DecisionRate& rate = from.by_source[i];
    if (rate.all() == 0) continue;
    std::string name = v1::Source_Name(static_cast<v1::Source>(i)).substr(sizeof "SOURCE_" - 1);
    for (char& c : name) c = c == '_' ? '_' : static_cast<char>(c - 'A' + 'a');
    sources[name] = {{"allowed_per_second", rate.allowed}, {"denied_per_second", rate.denied}};
  }
  return {{"domain", from.domain},
          {"rule", from.rule},
          {"shadow", from.shadow},
          {"allowed_per_second", from.rate.allowed},
          {"denied_per_second", from.rate.denied},
          {"sources", std::move(sources)}};
}

Json ToJson(const std::vector<KeyState>& from) {
  Json keys = Json::array();
  for (const KeyState& it : from) {
    keys.push_back({{"domain", it.domain},
                    {"rule", it.rule},
                    {"limit", it.limit},
                    {"key", it.key.empty() ? Json() : Json(it.key)},
                    {"subject", it.subject},
                    {"digest", it.digest},
                    {"count", it.count},
                    {"error", it.error}});
  }
  return keys;
}

}  // namespace

FleetState Merge(std::span<const ServerWatch::State> servers) {
  FleetState fleet;
  Latencies checks, store;
  Rules rules;
  Keys denied, used;
  for (const ServerWatch::State& from : servers) {
    ServerState& server = fleet.servers.emplace_back();
    server.name = from.name;
    // The address tried may be an admin socket, which the server's name does not show.
    const std::string place = from.tried.empty() ? "" : "no server at " + from.tried + ": ";
    if (from.error) server.error = place + from.error->message;
    if (!from.last) continue;
    server.answers = true;
    const v1::WatchFrame& frame = *from.last;
    const double seconds = SecondsOf(frame);
    for (const v1::WatchedRule& rule : frame.rules()) AddRule(rule, seconds, rules, server.rate);
    Accumulate(server.rate, fleet.rate);
    fleet.rules_left_out = std::max(fleet.rules_left_out, frame.rules_left_out());
    Latencies own;
    own.Add(frame.check_latency());
    server.checks = own.State();
    server.checks_per_second = static_cast<double>(own.Total()) / seconds;
    fleet.checks_per_second += server.checks_per_second;
    checks.Add(frame.check_latency());
    store.Add(frame.store_latency());
    server.store = frame.store();
    server.fleet_servers = frame.fleet_servers();
    server.fleet_share = frame.fleet_share();
    AddKeys(frame.keys().denied(), denied);
    AddKeys(frame.keys().used(), used);
  }
  fleet.checks = checks.State();
  fleet.store = store.State();
  for (auto& [name, rule] : rules) fleet.rules.push_back(std::move(rule));
  fleet.denied = Sorted(denied);
  fleet.used = Sorted(used);
  return fleet;
}

Json ToJson(const FleetState& fleet) {
  Json json = {{"servers", Json::array()},
               {"checks_per_second", fleet.checks_per_second},
               {"allowed_per_second", fleet.rate.allowed},
               {"denied_per_second", fleet.rate.denied},
               {"check_latency", ToJson(fleet.checks)},
               {"store_latency", ToJson(fleet.store)},
               {"rules", Json::array()},
               {"rules_left_out", fleet.rules_left_out},
               {"most_denied", ToJson(fleet.denied)},
               {"most_used", ToJson(fleet.used)}};
  for (const ServerState& server : fleet.servers) json["servers"].push_back(ToJson(server));
  for (const RuleState& rule : fleet.rules) json["rules"].push_back(ToJson(rule));
  return json;
}

}  // namespace sluice
