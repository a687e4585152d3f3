// Parses received messages with protobuf's generated classes, and says what is wrong with those
// that are refused.
//
// Thread-safe.
#pragma once

#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include "base/result.h"

namespace sluice {

// Returns false if the bytes are malformed, or if they have more than kMaxFields fields, over all
// levels: parsing a megabyte of small fields takes 40 ms.
bool ParseMessage(std::string_view bytes, google::protobuf::Message& message);

// Sets `fields` to the fields of `bytes` up to the first error in protobuf's format. Texts are not
// checked. Sets nothing if `bytes` is longer than 64 KiB.
void ReadFields(std::string_view bytes, google::protobuf::UnknownFieldSet& fields);

// Returns INVALID_ARGUMENT. `bytes` is a message of `type`. If a text in the message is not UTF-8,
// the error names the field of the first such text (searched in at most 64 KiB). Otherwise it says
// that the bytes are not in protobuf's format.
Error MalformedMessage(const google::protobuf::Descriptor& type, std::string_view bytes);

// From now on, sends protobuf's messages about malformed input to this project's log, at debug
// level. By default, protobuf writes these messages to standard error. That may block, and callers
// could cause any number of messages.
void SendProtobufLogToOurs();

}  // namespace sluice
