#include "http/http_message.h"

#include <strings.h>

#include <algorithm>

namespace sluice {

bool IsName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

HttpResponse Busy() {
  return {.status = 503, .body = "the server is busy\n", .headers = {{"Retry-After", "1"}}};
}

std::optional<std::string_view> OnlyHeader(const HttpHeaders& headers, std::string_view name) {
  const auto is_named = [&](const auto& header) { return IsName(header.first, name); };
  const auto found = std::ranges::find_if(headers, is_named);
  if (found == headers.end() || std::any_of(found + 1, headers.end(), is_named)) {
    return std::nullopt;
  }
  return found->second;
}

}  // namespace sluice
