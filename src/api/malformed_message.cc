#include "api/malformed_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format.h>

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

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

void ReadFields(std::string_view bytes, UnknownFieldSet& fields) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  google::protobuf::internal::WireFormat::SkipMessage(&input, &fields);
}

Error MalformedMessage(const Descriptor& type, std::string_view bytes) {
  const std::string field = FindInvalidText(type, bytes);
  if (field.empty()) return InvalidArgument("the request is not a valid protobuf message");
  return InvalidArgument(fmt::format("{}: not valid UTF-8", field));
}

void SendProtobufLogToOurs() {
  static auto* const before = google::protobuf::SetLogHandler(Log);
  static_cast<void>(before);
}

}  // namespace sluice
