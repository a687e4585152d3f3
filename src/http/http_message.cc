#include "http/http_message.h"

#include <strings.h>

namespace sluice {

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [found, value] : headers) {
    if (found.size() == name.size() && strncasecmp(found.data(), name.data(), name.size()) == 0) {
      return value;
    }
  }
  return {};
}

}  // namespace sluice
