// Finds syntax errors that yaml-cpp does not report, above all a quote that is never closed, which
// would swallow the rest of a file. Uses libyaml, which is strict and names the place where the
// faulty construct begins.
//
// Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/diagnostic.h"

namespace sluice {

struct YamlSyntaxError {
  Position position;      // where the construct begins, if the mistake is probably there
  std::string message;    // "not YAML: …"
  bool is_quote = false;  // a quote swallows text: what yaml-cpp makes of the file is not meant
};

// The first error in `text`, or nullopt if there is none. REQUIRES: `text` is UTF-8.
std::optional<YamlSyntaxError> FindYamlSyntaxError(std::string_view text);

}  // namespace sluice
