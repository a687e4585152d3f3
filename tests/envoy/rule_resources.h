// Converts the rules of files to resources of a control plane.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "envoy/rules/rule_file.h"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "envoy/xds/resource_reader.h"
#include "ratelimit/config/ratelimit/v3/rls_conf.pb.h"

namespace sluice::envoy {

namespace rules_pb = ::ratelimit::config::ratelimit::v3;

inline google::protobuf::Value ValueOfNode(const YamlNode& node) {
  google::protobuf::Value value;
  double number = 0;
  switch (node.kind) {
    case YamlNode::Kind::kMap:
      for (std::size_t i = 0; i < node.items.size(); i += 2) {
        (*value.mutable_struct_value()->mutable_fields())[node.items[i].text] =
            ValueOfNode(node.items[i + 1]);
      }
      break;
    case YamlNode::Kind::kSequence:
      for (const YamlNode& item : node.items) {
        *value.mutable_list_value()->add_values() = ValueOfNode(item);
      }
      break;
    case YamlNode::Kind::kScalar:
      if (!node.quoted && (node.text == "true" || node.text == "false")) {
        value.set_bool_value(node.text == "true");
      } else if (const char* const end = node.text.data() + node.text.size();
                 !node.quoted && node.text.find_first_not_of("0123456789.-") == node.text.npos &&
                 std::from_chars(node.text.data(), end, number).ptr == end) {
        value.set_number_value(number);
      } else {
        value.set_string_value(node.text);
      }
      break;
    case YamlNode::Kind::kNull:
    case YamlNode::Kind::kRefused:
      value.set_null_value(google::protobuf::NULL_VALUE);
  }
  return value;
}

// Returns false if a resource cannot express `from`: resources have no share_threshold, no
// value_to_metric, and none of Sluice's own keys.
inline bool FillDescriptor(const Descriptor& from, rules_pb::RateLimitDescriptor& to) {
  to.set_key(from.key);
  to.set_value(from.value);
  to.set_shadow_mode(from.shadow_mode);
  to.set_quota_mode(from.quota_mode);
  to.set_detailed_metric(from.detailed_metric);
  if (from.metadata.kind == YamlNode::Kind::kMap) {
    *to.mutable_metadata() = ValueOfNode(from.metadata).struct_value();
  }
  bool can = !from.share_threshold && !from.value_to_metric;
  if (from.rate_limit) {
    const RateLimit& limit = *from.rate_limit;
    can &= limit.limits.empty() && limit.on_store_failure == OnStoreFailure::kLocal;
    to.mutable_rate_limit()->set_unlimited(limit.unlimited);
    to.mutable_rate_limit()->set_unit(static_cast<rules_pb::RateLimitUnit>(limit.unit));
    to.mutable_rate_limit()->set_requests_per_unit(limit.requests_per_unit);
    to.mutable_rate_limit()->set_name(limit.name);
    for (const std::string& name : limit.replaces) {
      to.mutable_rate_limit()->add_replaces()->set_name(name);
    }
  }
  for (const Descriptor& child : from.descriptors) {
    can &= FillDescriptor(child, *to.add_descriptors());
  }
  return can;
}

// Converts the rules to resources, and returns the documents that a server reads from these.
// Returns nullopt if resources cannot express the rules.
inline std::optional<std::vector<RuleDocument>> AsResources(const std::vector<RuleTree>& trees) {
  ::envoy::service::discovery::v3::DiscoveryResponse response;
  for (const RuleTree& tree : trees) {
    rules_pb::RateLimitConfig config;
    config.set_domain(tree.domain);
    bool can = !tree.all_or_nothing;
    for (const Descriptor& it : tree.descriptors)
      can &= FillDescriptor(it, *config.add_descriptors());
    if (!can) return std::nullopt;
    auto& resource = *response.add_resources();
    resource.set_type_url(kRulesType);
    resource.set_value(config.SerializeAsString());
  }
  std::vector<std::string> mistakes;
  std::vector<RuleDocument> documents = ReadResources(response, mistakes);
  if (!mistakes.empty()) return std::nullopt;
  return documents;
}

}  // namespace sluice::envoy
