// Cleanup of unix socket files that an earlier process left behind.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// Removes the socket at `path` if no process listens on it. Fails if a process does, or if `path`
// is not a socket. Succeeds if nothing exists at `path`.
Result<void> RemoveStaleSocket(const std::string& path);

}  // namespace sluice
