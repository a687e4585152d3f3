#include "envoy/rls/dynamic_metadata.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace sluice::envoy {
namespace {

using Kind = YamlNode::Kind;

// Writes the content of a google.protobuf.Value.
using WriteValue = std::function<void(WireWriter&)>;

void WriteNull(WireWriter& to) { to.WriteVarint(1, 0); }
void WriteNumber(WireWriter& to, double number) {
  to.WriteFixed64(2, std::bit_cast<std::uint64_t>(number));
}
void WriteText(WireWriter& to, std::string_view text) { to.WriteBytes(3, text); }

// An entry of a google.protobuf.Struct, which is the message being written.
void WriteField(WireWriter& to, std::string_view key, const WriteValue& value) {
  const std::size_t entry = to.BeginMessage(1);
  to.WriteBytes(1, key);
  const std::size_t begin = to.BeginMessage(2);
  value(to);
  to.EndMessage(begin);
  to.EndMessage(entry);
}

std::optional<double> ParseNumber(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number)) return std::nullopt;  // from_chars reads "nan", YAML does not
  return number;
}

void WriteScalar(WireWriter& to, const YamlNode& node) {
  const auto number = node.quoted ? std::nullopt : ParseNumber(node.text);
  if (number) return WriteNumber(to, *number);
  const bool is_true = node.text == "true";
  if (!node.quoted && (is_true || node.text == "false")) return to.WriteVarint(4, is_true ? 1 : 0);
  WriteText(to, node.text);
}

void WriteNode(WireWriter& to, const YamlNode& node) {
  if (node.kind == Kind::kScalar) return WriteScalar(to, node);
  if (node.kind == Kind::kSequence) {
    const std::size_t list = to.BeginMessage(6);
    for (const YamlNode& item : node.items) {
      const std::size_t value = to.BeginMessage(1);
      WriteNode(to, item);
      to.EndMessage(value);
    }
    return to.EndMessage(list);
  }
  if (node.kind != Kind::kMap) return WriteNull(to);
  const std::size_t fields = to.BeginMessage(5);
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2) {
    WriteField(to, node.items[i].text,
               [&](WireWriter& value) { WriteNode(value, node.items[i + 1]); });
  }
  to.EndMessage(fields);
}

void WriteEntries(const Request& request, const RequestedDescriptor& from, WireWriter& to) {
  const std::size_t list = to.BeginMessage(6);
  for (const Entry& entry : request.EntriesOf(from)) {
    const std::size_t value = to.BeginMessage(1);
    WriteText(to, fmt::format("{}={}", entry.key, entry.value));
    to.EndMessage(value);
  }
  to.EndMessage(list);
}

void WriteLimit(const RequestedLimit& limit, WireWriter& to) {
  const std::size_t fields = to.BeginMessage(5);
  WriteField(to, "requests_per_unit",
             [&](WireWriter& value) { WriteNumber(value, limit.requests_per_unit); });
  WriteField(to, "unit",
             [&](WireWriter& value) { WriteText(value, ToString(static_cast<Unit>(limit.unit))); });
  to.EndMessage(fields);
}

void WriteDescriptor(const Request& request, const RequestedDescriptor& from, WireWriter& to) {
  const std::size_t fields = to.BeginMessage(5);
  WriteField(to, "entries", [&](WireWriter& value) { WriteEntries(request, from, value); });
  if (from.limit) {
    WriteField(to, "limit", [&](WireWriter& value) { WriteLimit(*from.limit, value); });
  }
  if (from.hits) {
    WriteField(to, "hitsAddend",
               [&](WireWriter& value) { WriteNumber(value, static_cast<double>(*from.hits)); });
  }
  to.EndMessage(fields);
}

std::map<std::string_view, const YamlNode*> Merge(std::span<const Place* const> passed) {
  std::map<std::string_view, const YamlNode*> merged;
  for (const Place* place : passed) {
    const auto& items = place->metadata.items;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) merged[items[i].text] = &items[i + 1];
  }
  return merged;
}

}  // namespace

void WriteDynamicMetadata(const Request& request, std::span<const Place* const> passed,
                          WireWriter& to) {
  const std::size_t fields = to.BeginMessage(6);
  for (const auto& [key, node] : Merge(passed)) {
    if (key == "domain" || key == "descriptors" || key == "hitsAddend") continue;
    WriteField(to, key, [&, value = node](WireWriter& out) { WriteNode(out, *value); });
  }
  WriteField(to, "domain", [&](WireWriter& value) { WriteText(value, request.domain); });
  WriteField(to, "descriptors", [&](WireWriter& value) {
    const std::size_t list = value.BeginMessage(6);
    for (const RequestedDescriptor& it : request.descriptors) {
      const std::size_t item = value.BeginMessage(1);
      WriteDescriptor(request, it, value);
      value.EndMessage(item);
    }
    value.EndMessage(list);
  });
  WriteField(to, "hitsAddend", [&](WireWriter& value) { WriteNumber(value, request.hits); });
  to.EndMessage(fields);
}

}  // namespace sluice::envoy
