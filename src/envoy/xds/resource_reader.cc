#include "envoy/xds/resource_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "envoy/service/discovery/v3/discovery.pb.h"
#include "ratelimit/config/ratelimit/v3/rls_conf.pb.h"

namespace sluice::envoy {
namespace {

using ::envoy::service::discovery::v3::DiscoveryResponse;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using ::ratelimit::config::ratelimit::v3::RateLimitConfig;
using Kind = YamlNode::Kind;

YamlNode Scalar(std::string text, bool quoted = false) {
  return {.kind = Kind::kScalar, .text = std::move(text), .quoted = quoted};
}

YamlNode Text(std::string text) { return Scalar(std::move(text), true); }

YamlNode NodeOf(const google::protobuf::Struct& map);

YamlNode NodeOf(const google::protobuf::Value& value) {
  using Value = google::protobuf::Value;
  switch (value.kind_case()) {
    case Value::kNumberValue:
      return Scalar(fmt::format("{}", value.number_value()));
    case Value::kStringValue:
      return Text(value.string_value());
    case Value::kBoolValue:
      return Scalar(value.bool_value() ? "true" : "false");
    case Value::kStructValue:
      return NodeOf(value.struct_value());
    case Value::kListValue: {
      YamlNode list{.kind = Kind::kSequence};
      for (const Value& item : value.list_value().values()) list.items.push_back(NodeOf(item));
      return list;
    }
    case Value::kNullValue:
    case Value::KIND_NOT_SET:
      break;
  }
  return {};
}

YamlNode NodeOf(const google::protobuf::Struct& map) {
  YamlNode node{.kind = Kind::kMap};
  for (const auto& [key, value] : map.fields()) {
    node.items.push_back(Text(key));
    node.items.push_back(NodeOf(value));
  }
  return node;
}

YamlNode NodeOf(const Message& message);

// One value of a field; `index` is -1 unless the field is repeated.
YamlNode ValueOf(const Message& message, const FieldDescriptor& field, int index) {
  const auto& reader = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Scalar(reader.GetBool(message, &field) ? "true" : "false");
    case FieldDescriptor::CPPTYPE_UINT32:
      return Scalar(fmt::format("{}", reader.GetUInt32(message, &field)));
    case FieldDescriptor::CPPTYPE_STRING:
      return Text(reader.GetString(message, &field));
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int number = reader.GetEnumValue(message, &field);
      const auto* const name = field.enum_type()->FindValueByNumber(number);
      return Scalar(name != nullptr ? name->name() : fmt::format("{}", number));
    }
    default:
      return NodeOf(index < 0 ? reader.GetMessage(message, &field)
                              : reader.GetRepeatedMessage(message, &field, index));
  }
}

// Fields that are not set are absent, like keys that a file does not have.
YamlNode NodeOf(const Message& message) {
  if (message.GetDescriptor() == google::protobuf::Struct::descriptor()) {
    return NodeOf(static_cast<const google::protobuf::Struct&>(message));
  }
  YamlNode node{.kind = Kind::kMap};
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* const field : fields) {
    node.items.push_back(Text(field->name()));
    if (!field->is_repeated()) {
      node.items.push_back(ValueOf(message, *field, -1));
      continue;
    }
    YamlNode list{.kind = Kind::kSequence};
    const int size = message.GetReflection()->FieldSize(message, field);
    for (int i = 0; i < size; ++i) list.items.push_back(ValueOf(message, *field, i));
    node.items.push_back(std::move(list));
  }
  return node;
}

}  // namespace

ResourceSetId IdOf(const DiscoveryResponse& response) {
  // A control plane may send the same resources to each server in a different order.
  std::vector<std::string> digests;
  for (const auto& resource : response.resources()) {
    digests.push_back(Sha256Hex128(resource.type_url() + "\n" + resource.value()));
  }
  std::ranges::sort(digests);
  return {.version = response.version_info(),
          .fingerprint = Sha256Hex128(fmt::to_string(fmt::join(digests, "\n"))),
          .resources = static_cast<std::size_t>(response.resources_size())};
}

std::vector<RuleDocument> ReadResources(const DiscoveryResponse& response,
                                        std::vector<std::string>& mistakes) {
  std::vector<RuleDocument> documents;
  for (int i = 0; i < response.resources_size(); ++i) {
    const auto& resource = response.resources(i);
    RateLimitConfig config;
    if (resource.type_url() != kRulesType || !config.ParseFromString(resource.value())) {
      mistakes.push_back(fmt::format("resources[{}]: found a {} instead of a valid {}", i,
                                     resource.type_url(), kRulesType));
      continue;
    }
    std::string name = fmt::format("resources[{}]", i);
    if (!config.name().empty()) name += fmt::format(" \"{}\"", config.name());
    config.clear_name();
    documents.push_back({.name = std::move(name), .root = NodeOf(config)});
  }
  return documents;
}

}  // namespace sluice::envoy
