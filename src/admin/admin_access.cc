#include "admin/admin_access.h"

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

Result<void> AdmitByToken(std::optional<std::string_view> authorization, std::string_view token) {
  if (!authorization || !HasScheme(*authorization)) {
    return Error{ErrorCode::kUnauthenticated,
                 "needs `authorization: Bearer TOKEN` with the server's admin token (setting "
                 "admin.token_file), or the server's admin socket (setting admin.listen)"};
  }
  if (IsSecret(authorization->substr(kScheme.size()), token)) return {};
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
  if (!token.empty()) return AdmitByToken(caller.authorization, token);
  return Error{ErrorCode::kPermissionDenied,
               "operators are not served here; they use the server's admin socket (setting "
               "admin.listen), or a token if it has one (setting admin.token_file)"};
}

}  // namespace sluice
