// What the tool prints as JSON.
#pragma once

#include <string>

#include <google/protobuf/message.h>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace sluice::tools {

// On one line. Bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const nlohmann::ordered_json& json);

// A message of the API in protobuf's JSON mapping, on one line, with fields at their defaults.
std::string MessageJson(const google::protobuf::Message& message);

// {"error":{"code":…,"message":…}}
std::string ErrorJson(const Error& error);

}  // namespace sluice::tools
