#include "base/json.h"

#include <nlohmann/json.hpp>

namespace sluice {

std::string JsonString(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice
