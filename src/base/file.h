// Files that hold a few kilobytes: settings, certificates, tokens.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// The content. The error names `path` and the cause. A directory is an error, too.
Result<std::string> ReadFile(const std::string& path);

}  // namespace sluice
