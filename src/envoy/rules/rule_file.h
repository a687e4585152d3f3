// Rule files of Envoy's rate limit service after parsing and before compiling: plain values, no
// behavior.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/yaml_reader.h"
#include "envoy/rules/unit.h"
#include "match/rule.h"

namespace sluice::envoy {

struct RateLimit {
  bool unlimited = false;
  Unit unit = Unit::kUnknown;
  std::uint32_t requests_per_unit = 0;
  std::string name;
  std::vector<std::string> replaces;  // names of other limits
  // Sluice's extension: its own limits instead of a unit.
  std::vector<RuleLimit> limits;
  OnStoreFailure on_store_failure = OnStoreFailure::kLocal;
};

struct Descriptor {
  std::string file;
  Position position;
  std::string key;
  std::string value;                    // empty: any; '*' matches any number of characters
  std::optional<RateLimit> rate_limit;  // absent: requests that end here are allowed
  std::vector<Descriptor> descriptors;  // for a request's next entry
  bool shadow_mode = false;
  bool quota_mode = false;
  bool share_threshold = false;  // all values that match share one counter
  bool detailed_metric = false;  // the metric's label has the request's values
  bool value_to_metric = false;  // the metric's label has this entry's value
  YamlNode metadata;             // a map; kNull: none

  bool is_wildcard() const { return value.find('*') != std::string::npos; }
};

struct RuleTree {
  std::string domain;
  std::string file;
  Position domain_position;  // in the file
  // Sluice's extension: a request that is over one of its limits is counted by none.
  bool all_or_nothing = false;
  std::vector<Descriptor> descriptors;
};

}  // namespace sluice::envoy
