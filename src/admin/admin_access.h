// Who may do what changes state or shows keys: explain, list, reset, reload. The same for all
// protocols. A peer's address never opens anything: a proxy on the machine makes every caller
// local.
//
// A value; thread-safe while it is not changed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice {

struct AdminAccess {
  // Everybody who reaches the listener is an operator: it is a unix socket of the server's user.
  bool trusted_listener = false;
  // Opens to callers who send `authorization: Bearer <token>`. Empty: to none. A secret.
  std::string token;
  // Open to callers whose client certificate has one of these names.
  std::vector<std::string> identities;

  struct Caller {
    std::optional<std::string_view> authorization;  // the header; absent: none, or more than one
    std::span<const std::string> identities;        // of the verified client certificate
  };

  // The error says which setting would admit the caller; never the token.
  Result<void> Admit(const Caller& caller) const;
};

}  // namespace sluice
