#include "client/message_json.h"

#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "client/grpc_status.h"

namespace sluice {

using Json = nlohmann::ordered_json;

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions print;
  print.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, print);
  return status.ok() ? json : ErrorJson({ErrorCode::kInternal, status.ToString()});
}

std::string ErrorJson(const Error& error) {
  const Json body = {{"code", CodeName(error.code)}, {"message", error.message}};
  return JsonText({{"error", body}});
}

}  // namespace sluice
