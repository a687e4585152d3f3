#include "admin/admin_access.h"

#include <algorithm>

namespace sluice {
namespace {

Result<void> AdmitByToken(std::optional<std::string_view> authorization, std::string_view token) {
  const auto given = BearerToken(authorization);
  if (!given) {
    return Error{ErrorCode::kUnauthenticated,
                 "needs `authorization: Bearer TOKEN` with the server's admin token (setting "
                 "admin.token_file), or the server's admin socket (setting admin.listen)"};
  }
  if (IsSecret(*given, token)) return {};
  return Error{ErrorCode::kUnauthenticated,
               "this is not the server's admin token (setting admin.token_file)"};
}

}  // namespace

Result<void> AdminAccess::Admit(const Caller& caller) const {
  if (trusted_listener) return {};
  const auto listed = [this](const std::string& name) {
    return std::find(identities.begin(), identities.end(), name) != identities.end();
  };
  if (std::any_of(caller.identities.begin(), caller.identities.end(), listed)) return {};
  const std::string expected = token != nullptr ? token->Get() : "";
  if (!expected.empty()) return AdmitByToken(caller.authorization, expected);
  return Error{ErrorCode::kPermissionDenied,
               "admin calls are not served at this address; use the server's admin socket (setting "
               "admin.listen), or its admin token if it has one (setting admin.token_file)"};
}

}  // namespace sluice
