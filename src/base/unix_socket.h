// What a listener on a unix socket must do about the file an earlier process left behind.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice {

// Removes the socket at `path` if nobody listens on it any more. Fails if somebody does, or if
// `path` is something other than a socket. Nothing there is fine.
Result<void> RemoveStaleSocket(const std::string& path);

}  // namespace sluice
