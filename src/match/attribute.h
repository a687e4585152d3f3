// An attribute of a request, as its caller gave it.
#pragma once

#include <string_view>

namespace sluice {

struct Attribute {
  std::string_view name;
  std::string_view value;
};

}  // namespace sluice
