// Who gets in, by setting.
#include "limiter/admin_door.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(AdminDoor, AdmitsByItsSetting_AndSaysWhichOpensIt_Table) {
  using Opens = AdminDoor::Opens;
  const auto kDenied = ErrorCode::kPermissionDenied;
  const auto kUnknown = ErrorCode::kUnauthenticated;
  const struct {
    Opens opens;
    bool local;
    std::optional<std::string_view> authorization;
    std::optional<ErrorCode> refusal;
    std::string_view said;
  } rows[] = {
      {Opens::kToNobody, true, "Bearer sesame", kDenied, "admin.access: local or token"},
      {Opens::kToLocalCallers, true, {}, {}, ""},
      {Opens::kToLocalCallers, true, "Bearer wrong", {}, ""},
      {Opens::kToLocalCallers, false, {}, kDenied, "admin.access: token"},
      {Opens::kToLocalCallers, false, "Bearer sesame", kDenied, "admin.access: token"},
      {Opens::kToTokens, false, "Bearer sesame", {}, ""},
      {Opens::kToTokens, false, "bearer sesame", {}, ""},
      {Opens::kToTokens, true, {}, kUnknown, "authorization: Bearer"},
      {Opens::kToTokens, true, "", kUnknown, "authorization: Bearer"},
      {Opens::kToTokens, true, "Bearer ", kUnknown, "authorization: Bearer"},
      {Opens::kToTokens, true, "sesame", kUnknown, "authorization: Bearer"},
      {Opens::kToTokens, true, "Basic sesame", kUnknown, "authorization: Bearer"},
      {Opens::kToTokens, true, "Bearer sesam", kUnknown, "not the server's admin token"},
      {Opens::kToTokens, true, "Bearer sesame ", kUnknown, "not the server's admin token"},
      {Opens::kToTokens, true, "Bearer SESAME", kUnknown, "not the server's admin token"},
  };
  for (const auto& row : rows) {
    const auto admitted = AdminDoor(row.opens, "sesame").Admit({row.local, row.authorization});
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
