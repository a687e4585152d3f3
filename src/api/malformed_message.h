// Says what is wrong with bytes that a generated parser has refused.
//
// Thread-safe.
#pragma once

#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include "base/result.h"

namespace sluice {

// Sets `fields` to the fields of `bytes` up to the first error in protobuf's format. Texts are not
// checked.
void ReadFields(std::string_view bytes, google::protobuf::UnknownFieldSet& fields);

// INVALID_ARGUMENT: names the first text of `bytes`, a message of `type`, that is not UTF-8. If
// all are UTF-8, says that the bytes are not in protobuf's format.
Error MalformedMessage(const google::protobuf::Descriptor& type, std::string_view bytes);

// Sends protobuf's further messages about malformed input to this project's log, at debug level. By
// default protobuf writes them to standard error, which may block, and callers could cause any
// number of them.
void SendProtobufLogToOurs();

}  // namespace sluice
