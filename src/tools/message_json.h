// Messages of the API as JSON, in protobuf's own mapping.
#pragma once

#include <string>

#include <google/protobuf/message.h>

namespace sluice::tools {

// On one line, fields at their defaults included.
std::string MessageJson(const google::protobuf::Message& message);

}  // namespace sluice::tools
