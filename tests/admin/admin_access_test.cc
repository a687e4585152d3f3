// Which callers are admitted, depending on the server's settings and the caller's credentials.
#include "admin/admin_access.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

TEST(AdminAccess, AdmitsByItsSettings_AndSaysWhichWouldOpenIt_Table) {
  const auto kDenied = ErrorCode::kPermissionDenied;
  const auto kUnknown = ErrorCode::kUnauthenticated;
  const Secret sesame("sesame");
  const AdminAccess closed;
  const AdminAccess trusted{.trusted_listener = true};
  const AdminAccess token{.token = &sesame};
  const AdminAccess names{.identities = {"dns:ops.example", "dns:oncall.example"}};
  const AdminAccess both{.token = &sesame, .identities = {"dns:ops.example"}};
  const struct {
    const AdminAccess& access;
    std::optional<std::string_view> authorization;
    std::vector<std::string> identities;
    std::optional<ErrorCode> refusal;
    std::string_view said;
  } rows[] = {
      {closed, {}, {}, kDenied, "admin.listen"},
      {closed, {}, {}, kDenied, "admin.token_file"},
      {closed, "Bearer ", {}, kDenied, "admin.listen"},
      {closed, "Bearer sesame", {"dns:ops.example"}, kDenied, "admin.listen"},
      {trusted, {}, {}, {}, ""},
      {trusted, "Bearer wrong", {}, {}, ""},
      {token, "Bearer sesame", {}, {}, ""},
      {token, "bearer sesame", {}, {}, ""},
      {token, {}, {}, kUnknown, "authorization: Bearer"},
      {token, {}, {"dns:ops.example"}, kUnknown, "authorization: Bearer"},
      {token, "", {}, kUnknown, "authorization: Bearer"},
      {token, "Bearer ", {}, kUnknown, "authorization: Bearer"},
      {token, "sesame", {}, kUnknown, "authorization: Bearer"},
      {token, "Basic sesame", {}, kUnknown, "authorization: Bearer"},
      {token, "Bearer sesam", {}, kUnknown, "not the server's admin token"},
      {token, "Bearer sesame ", {}, kUnknown, "not the server's admin token"},
      {token, "Bearer SESAME", {}, kUnknown, "not the server's admin token"},
      {names, {}, {"dns:oncall.example"}, {}, ""},
      {names, {}, {"dns:somebody.example", "dns:ops.example"}, {}, ""},
      {names, {}, {"dns:ops.example.org"}, kDenied, "admin.listen"},
      {names, {}, {""}, kDenied, "admin.listen"},
      {names, "Bearer sesame", {}, kDenied, "admin.listen"},
      {both, {}, {"dns:ops.example"}, {}, ""},
      {both, "Bearer sesame", {}, {}, ""},
      {both, "Bearer wrong", {"dns:somebody.example"}, kUnknown, "not the server's admin token"},
  };
  for (const auto& row : rows) {
    const auto admitted =
        row.access.Admit({.authorization = row.authorization, .identities = row.identities});
    SCOPED_TRACE(row.authorization.value_or("none"));
    ASSERT_EQ(admitted.has_value(), !row.refusal.has_value());
    if (admitted) continue;
    EXPECT_EQ(admitted.error().code, *row.refusal);
    EXPECT_NE(admitted.error().message.find(row.said), std::string::npos);
    EXPECT_EQ(admitted.error().message.find("sesam"), std::string::npos) << "repeats a token";
  }
}

}  // namespace
}  // namespace sluice
