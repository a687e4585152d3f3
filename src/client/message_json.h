// JSON for programs that call servers.
#pragma once

#include <string>

#include <google/protobuf/message.h>
#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace sluice {

// One line. Invalid UTF-8 becomes U+FFFD.
std::string JsonText(const nlohmann::ordered_json& json);

// A message of the API in protobuf's JSON mapping, on one line. Includes fields with default
// values.
std::string MessageJson(const google::protobuf::Message& message);

// {"error":{"code":…,"message":…}}
std::string ErrorJson(const Error& error);

}  // namespace sluice
