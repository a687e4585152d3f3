#include "limiter/admin_door.h"

#include <algorithm>
#include <cctype>

#include "base/secret.h"

namespace sluice {
namespace {

constexpr std::string_view kScheme = "bearer ";

// The scheme is written in any case.
bool HasScheme(std::string_view authorization) {
  return authorization.size() > kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

}  // namespace

Result<void> AdminDoor::Admit(const Caller& caller) const {
  switch (opens_) {
    case Opens::kToLocalCallers:
      if (caller.local) return {};
      return Error{ErrorCode::kPermissionDenied,
                   "only callers on the server's own machine (loopback or unix socket) may do "
                   "this; the setting admin.access: token opens it to others"};
    case Opens::kToTokens:
      return AdmitByToken(caller.authorization);
    case Opens::kToNobody:
      break;
  }
  return Error{ErrorCode::kPermissionDenied,
               "nobody may do this; the setting admin.access: local or token opens it"};
}

Result<void> AdminDoor::AdmitByToken(std::optional<std::string_view> authorization) const {
  if (!authorization || !HasScheme(*authorization)) {
    return Error{ErrorCode::kUnauthenticated,
                 "needs `authorization: Bearer TOKEN` with the server's admin token (setting "
                 "admin.token_file or SLUICE_ADMIN_TOKEN)"};
  }
  if (IsSecret(authorization->substr(kScheme.size()), token_)) return {};
  return Error{ErrorCode::kUnauthenticated,
               "this is not the server's admin token (setting admin.token_file or "
               "SLUICE_ADMIN_TOKEN)"};
}

}  // namespace sluice
