// Whole files.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace sluice {

// The content. The error names `path` and the cause. A directory is an error, too.
Result<std::string> ReadFile(const std::string& path);

// The same, but if reading fails, returns nullopt and errno is the cause.
std::optional<std::string> ReadFileOrErrno(const std::string& path);

}  // namespace sluice
