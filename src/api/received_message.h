// Parses received messages with protobuf's generated classes. If a message is refused, says what is
// wrong with it.
//
// Thread-safe.
#pragma once

#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include "base/result.h"

namespace sluice {

// Returns false if the bytes are malformed, or if they have more than kMaxFields fields over all
// levels. Without this limit, parsing a megabyte of small fields would take 40 ms.
bool ParseMessage(std::string_view bytes, google::protobuf::Message& message);

// Sets `fields` to the fields of `bytes` up to the first error in protobuf's format. Texts are not
// checked. Sets nothing if `bytes` is longer than 64 KiB.
void ReadFields(std::string_view bytes, google::protobuf::UnknownFieldSet& fields);

// Returns INVALID_ARGUMENT. `bytes` is a malformed message of `type`. If a text in a message of at
// most 64 KiB is not UTF-8, the error names the field of the first such text. Otherwise, the error
// says that the bytes are not a valid message of at most kMaxFields fields.
Error MalformedMessage(const google::protobuf::Descriptor& type, std::string_view bytes);

// From now on, protobuf's log lines (about malformed input) go to this project's log, at debug
// level. By default, protobuf writes them to standard error. Such a write may block, and callers
// could cause any number of lines.
void SendProtobufLogToOurs();

}  // namespace sluice
