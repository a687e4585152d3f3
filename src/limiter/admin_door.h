// Who may do what changes state or shows keys: explain, list, reset, reload. One door for all
// protocols.
//
// Thread-safe: immutable.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace sluice {

class AdminDoor {
 public:
  enum class Opens {
    kToNobody,
    kToLocalCallers,  // of loopback addresses and unix sockets
    kToTokens,        // who sends `authorization: Bearer <token>`
  };
  struct Caller {
    bool local = false;
    std::optional<std::string_view> authorization;  // the header; absent: none, or more than one
  };

  // REQUIRES: `token` is not empty with kToTokens.
  AdminDoor(Opens opens, std::string token) : opens_(opens), token_(std::move(token)) {}

  // The error says which setting opens the door; never the token.
  Result<void> Admit(const Caller& caller) const;

 private:
  Result<void> AdmitByToken(std::optional<std::string_view> authorization) const;

  Opens opens_;
  std::string token_;
};

}  // namespace sluice
