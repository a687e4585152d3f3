#include "http/http_message.h"

#include <strings.h>

#include <algorithm>

namespace sluice {

bool HasName(const HttpHeaders::value_type& header, std::string_view name) {
  const std::string& found = header.first;
  return found.size() == name.size() && strncasecmp(found.data(), name.data(), name.size()) == 0;
}

std::optional<std::string_view> OnlyHeader(const HttpHeaders& headers, std::string_view name) {
  const auto is_named = [&](const auto& header) { return HasName(header, name); };
  const auto found = std::find_if(headers.begin(), headers.end(), is_named);
  if (found == headers.end() || std::any_of(found + 1, headers.end(), is_named)) {
    return std::nullopt;
  }
  return found->second;
}

std::string_view HttpRequest::Header(std::string_view name) const {
  const auto found = std::find_if(headers.begin(), headers.end(),
                                  [&](const auto& header) { return HasName(header, name); });
  return found == headers.end() ? std::string_view() : found->second;
}

}  // namespace sluice
