// Unix socket files that an earlier process left behind.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// Whether a process listens on the socket at `path`. False if a connection is refused, otherwise
// true, even if this user has no access to the socket.
bool SomebodyListens(const std::string& path);

// Removes the socket at `path` if no process listens on it. Fails if a process listens, or if
// `path` is not a socket. Succeeds if nothing exists at `path`.
Result<void> RemoveStaleSocket(const std::string& path);

}  // namespace sluice
