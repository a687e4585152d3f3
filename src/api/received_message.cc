#include "api/received_message.h"

#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format.h>

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "api/wire_reader.h"
#include "base/log.h"
#include "base/text.h"

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Parsing a message of at most this size takes little time, whatever the message contains.
constexpr std::size_t kSmall = 4096;
constexpr std::size_t kMaxSearched = 64 * 1024;

// Subtracts the number of fields from `left`. Returns false if there are more fields than `left`,
// or if there is a group: groups can nest, and no message of Sluice has them.
bool HasFewFields(const Descriptor& type, std::string_view bytes, int& left) {
  const auto read = [&](std::uint32_t tag, CodedInputStream& input) {
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    if (wire_type == WireFormatLite::WIRETYPE_START_GROUP) return false;
    if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      return WireFormatLite::SkipField(&input, tag);
    }
    std::string_view inner;
    if (!ReadBytes(input, inner)) return false;
    const auto* const field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    return field == nullptr || field->message_type() == nullptr ||
           HasFewFields(*field->message_type(), inner, left);
  };
  return ForEachField(bytes, left, read);
}

// The path of the first text that is not UTF-8. Empty if all texts are UTF-8.
std::string FindInvalidText(const Descriptor& type, std::string_view bytes) {
  UnknownFieldSet fields;
  ReadFields(bytes, fields);
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    const FieldDescriptor* const known = type.FindFieldByNumber(field.number());
    if (known == nullptr || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    const std::string& content = field.length_delimited();
    if (known->type() == FieldDescriptor::TYPE_STRING && !IsValidUtf8(content)) {
      return known->name();
    }
    if (known->type() != FieldDescriptor::TYPE_MESSAGE) continue;
    const std::string inner = FindInvalidText(*known->message_type(), content);
    if (!inner.empty()) return known->is_map() ? known->name() : known->name() + "." + inner;
  }
  return "";
}

void Log(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

}  // namespace

bool ParseMessage(std::string_view bytes, google::protobuf::Message& message) {
  int left = kMaxFields;
  return (bytes.size() <= kSmall || HasFewFields(*message.GetDescriptor(), bytes, left)) &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void ReadFields(std::string_view bytes, UnknownFieldSet& fields) {
  if (bytes.size() > kMaxSearched) return;
  CodedInputStream input = InputOf(bytes);
  google::protobuf::internal::WireFormat::SkipMessage(&input, &fields);
}

Error MalformedMessage(const Descriptor& type, std::string_view bytes) {
  const std::string field = FindInvalidText(type, bytes);
  if (field.empty()) {
    return InvalidArgument(fmt::format(
        "the request is not a valid protobuf message of at most {} fields", kMaxFields));
  }
  return InvalidArgument(fmt::format("{}: not valid UTF-8", field));
}

void SendProtobufLogToOurs() {
  static auto* const before = google::protobuf::SetLogHandler(Log);
  static_cast<void>(before);
}

}  // namespace sluice
