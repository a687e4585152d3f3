#include "envoy/rls/messages.h"

#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "api/received_message.h"
#include "base/text.h"

namespace sluice::envoy {
namespace {

// Envoy sends at most one descriptor for each rate limit of a route. Each descriptor uses about
// 2 KB of memory until the answer is sent.
constexpr int kMaxDescriptors = 100;

constexpr auto kMaxHits = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

Result<void> Validate(const Request& request) {
  if (request.descriptors_size() > kMaxDescriptors) {
    return InvalidArgument(fmt::format("descriptors: {} are too many; at most {} are allowed",
                                       request.descriptors_size(), kMaxDescriptors));
  }
  for (int i = 0; i < request.descriptors_size(); ++i) {
    const RequestedDescriptor& it = request.descriptors(i);
    const auto unit = static_cast<std::size_t>(it.limit().unit());
    if (it.has_limit() && (unit == 0 || unit >= kUnitLengths.size())) {
      return InvalidArgument(
          fmt::format("descriptors[{}].limit.unit: {} is not known; allowed are 1 to {}", i,
                      static_cast<int>(it.limit().unit()), kUnitLengths.size() - 1));
    }
    if (it.hits_addend().value() > kMaxHits) {
      return InvalidArgument(
          fmt::format("descriptors[{}].hits_addend: {} is too large; allowed are 0 to {}", i,
                      it.hits_addend().value(), kMaxHits));
    }
  }
  return {};
}

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;
using Kind = YamlNode::Kind;

Value& Field(Struct& fields, const std::string& key) { return (*fields.mutable_fields())[key]; }

Value ScalarOf(const YamlNode& node) {
  Value value;
  const auto number = node.quoted ? std::nullopt : ParseNumber<double>(node.text);
  const bool is_true = node.text == "true";
  if (number && std::isfinite(*number)) {  // "nan" is a text in YAML
    value.set_number_value(*number);
  } else if (!node.quoted && (is_true || node.text == "false")) {
    value.set_bool_value(is_true);
  } else {
    value.set_string_value(node.text);
  }
  return value;
}

Value ValueOf(const YamlNode& node) {
  if (node.kind == Kind::kScalar) return ScalarOf(node);
  Value value;
  if (node.kind == Kind::kSequence) {
    ListValue& list = *value.mutable_list_value();
    for (const YamlNode& item : node.items) *list.add_values() = ValueOf(item);
  } else if (node.kind == Kind::kMap) {
    Struct& fields = *value.mutable_struct_value();
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
      Field(fields, node.items[i].text) = ValueOf(node.items[i + 1]);
    }
  } else {
    value.set_null_value(google::protobuf::NULL_VALUE);
  }
  return value;
}

Value DescriptorOf(const RequestedDescriptor& descriptor) {
  Value value;
  Struct& fields = *value.mutable_struct_value();
  ListValue& entries = *Field(fields, "entries").mutable_list_value();
  for (const auto& it : descriptor.entries()) {
    entries.add_values()->set_string_value(fmt::format("{}={}", it.key(), it.value()));
  }
  if (descriptor.has_limit()) {
    Struct& limit = *Field(fields, "limit").mutable_struct_value();
    Field(limit, "requests_per_unit").set_number_value(descriptor.limit().requests_per_unit());
    Field(limit, "unit")
        .set_string_value(std::string(ToString(static_cast<Unit>(descriptor.limit().unit()))));
  }
  if (descriptor.has_hits_addend()) {
    const auto hits = static_cast<double>(descriptor.hits_addend().value());
    Field(fields, "hitsAddend").set_number_value(hits);
  }
  return value;
}

// If several nodes have metadata with the same key, the last node in `passed` wins.
void FillDynamicMetadata(const Request& request, std::span<const TrieNode* const> passed,
                         Struct& to) {
  for (const TrieNode* node : passed) {
    const auto& items = node->metadata.items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
      Field(to, items[i].text) = ValueOf(items[i + 1]);
    }
  }
  Value descriptors;
  for (const RequestedDescriptor& it : request.descriptors()) {
    *descriptors.mutable_list_value()->add_values() = DescriptorOf(it);
  }
  Field(to, "descriptors") = std::move(descriptors);
  Field(to, "domain").set_string_value(request.domain());
  Field(to, "hitsAddend").set_number_value(request.hits_addend());
}

bool IsDenied(const DescriptorCheck& check) {
  return check.status().code() == Response::OVER_LIMIT;
}

// The status for the headers: the status of the last denied check outside quota_mode. If there is
// no such check, the first status with the least remaining. Null if no status has a limit.
const Response::DescriptorStatus* StatusForHeaders(DecidedChecks checks) {
  const Response::DescriptorStatus* least = nullptr;
  const Response::DescriptorStatus* over = nullptr;
  for (const auto& check : checks) {
    const auto& status = check->status();
    if (!status.has_current_limit()) continue;
    if (least == nullptr || status.limit_remaining() < least->limit_remaining()) least = &status;
    if (IsDenied(*check) && !check->is_quota()) over = &status;
  }
  return over != nullptr ? over : least;
}

void AddHeader(const std::string& name, std::int64_t value, Response& to) {
  auto& header = *to.add_response_headers_to_add();
  header.set_key(name);
  header.set_value(fmt::to_string(value));
}

void AddHeaders(const Decided& from, Response& to) {
  const auto* const status = StatusForHeaders(from.checks);
  if (status == nullptr) return;
  AddHeader(from.settings.limit_header, status->current_limit().requests_per_unit(), to);
  AddHeader(from.settings.remaining_header, status->limit_remaining(), to);
  AddHeader(from.settings.reset_header, status->duration_until_reset().seconds(), to);
}

}  // namespace

Result<void> ParseRequest(std::string_view bytes, Request& request) {
  if (!ParseMessage(bytes, request)) return MalformedMessage(*request.GetDescriptor(), bytes);
  return Validate(request);
}

void ReadEntries(const RequestedDescriptor& descriptor, std::vector<Entry>& entries) {
  entries.clear();
  for (const auto& it : descriptor.entries()) entries.push_back({it.key(), it.value()});
}

std::uint64_t HitsOf(const Request& request, const RequestedDescriptor& descriptor) {
  if (descriptor.has_hits_addend()) return descriptor.hits_addend().value();
  return std::max<std::uint32_t>(1, request.hits_addend());
}

Response::Code OverallCode(DecidedChecks checks) {
  std::size_t quotas = 0;
  std::size_t quotas_over = 0;
  for (const auto& check : checks) {
    if (IsDenied(*check) && !check->is_quota()) return Response::OVER_LIMIT;
    quotas += check->is_quota();
    quotas_over += check->is_quota() && IsDenied(*check);
  }
  return quotas > 0 && quotas_over == quotas ? Response::OVER_LIMIT : Response::OK;
}

void Complete(const Decided& decided, Response& response) {
  response.set_overall_code(decided.settings.shadow_mode ? Response::OK
                                                         : OverallCode(decided.checks));
  if (!decided.settings.limit_header.empty()) AddHeaders(decided, response);
  if (decided.settings.dynamic_metadata) {
    FillDynamicMetadata(decided.request, decided.passed, *response.mutable_dynamic_metadata());
  }
}

}  // namespace sluice::envoy
