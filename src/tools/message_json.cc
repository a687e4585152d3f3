#include "tools/message_json.h"

#include <google/protobuf/util/json_util.h>

#include "tools/load_text.h"

namespace sluice::tools {

std::string MessageJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions print;
  print.always_print_primitive_fields = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, print);
  return status.ok() ? json : ErrorJson({ErrorCode::kInternal, status.ToString()});
}

}  // namespace sluice::tools
