// Merges what several servers did in about one second, and formats the result as JSON.
//
// Plain values. Texts come from the servers and their callers, so escape them before printing them
// to a terminal.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/server_watch.h"

namespace sluice {

struct DecisionRate {
  double allowed = 0, denied = 0;  // per second
  double all() const { return allowed + denied; }
};

struct RuleState {
  std::string domain, rule;  // if `rule` is empty, no rule decided
  bool shadow = false;
  DecisionRate rate;
  std::array<DecisionRate, v1::Source_ARRAYSIZE> by_source{};  // by v1::Source
};

struct LatencyState {
  // In microseconds, interpolated between bounds. Absent if there were no values.
  std::optional<double> p50, p99;
};

struct ServerState {
  std::string name;
  // Why the server is not watched. Empty if it is watched, or if it has not answered yet.
  std::string error;
  bool answers = false;
  double checks_per_second = 0;
  DecisionRate rate;
  LatencyState checks;
  v1::WatchedStore store;
  std::uint64_t fleet_servers = 0;
  double fleet_share = 0;
};

struct KeyState {
  std::string domain, rule;
  std::uint32_t limit = 0;
  std::string key;      // empty: the server does not show keys
  std::string subject;  // what follows the rule in the key, such as "user=42"
  std::string digest;
  std::uint64_t count = 0, error = 0;  // as in v1::WatchedKey
};

struct FleetState {
  std::vector<ServerState> servers;
  double checks_per_second = 0;
  // The sum over all rules except shadow rules: a check counts once for each rule that decided it.
  DecisionRate rate;
  LatencyState checks, store;
  std::vector<RuleState> rules;  // by domain and name
  std::uint64_t rules_left_out = 0;
  std::vector<KeyState> denied, used;  // highest counts first
};

// Adds up the servers' rates, and the `count` and `error` of each key. No check is counted twice,
// even if servers share a Redis, because only one server counts it. A server without a frame adds
// nothing. rules_left_out is the maximum over the servers.
FleetState Merge(std::span<const ServerWatch::State> servers);

nlohmann::ordered_json ToJson(const FleetState& fleet);

}  // namespace sluice
