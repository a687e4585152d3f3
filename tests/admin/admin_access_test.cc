// Which callers are admitted, depending on the server's settings and the caller's credentials.
#include "admin/admin_access.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sluice {
namespace {

TEST(AdminAccess, Admit_FollowsTheSettings_ErrorsNameWhatIsRequired) {
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
    const net::Peer peer{.address = "192.0.2.1:4711", .identities = row.identities};
    const auto admitted = row.access.Admit({.authorization = row.authorization, .peer = peer});
    SCOPED_TRACE(row.authorization.value_or("none"));
    ASSERT_EQ(admitted.has_value(), !row.refusal.has_value());
    if (admitted) continue;
    EXPECT_EQ(admitted.error().code, *row.refusal);
    EXPECT_NE(admitted.error().message.find(row.said), std::string::npos);
    EXPECT_EQ(admitted.error().message.find("sesam"), std::string::npos)
        << "the error repeats a token";
  }
}

TEST(AdminAccess, Admit_ReturnsWhatAdmittedTheCaller) {
  const Secret sesame("sesame");
  const net::Peer peer{.address = "192.0.2.1:4711", .identities = {"dns:a", "dns:ops"}};
  const AdminAccess access{.token = &sesame, .identities = {"dns:ops"}};
  EXPECT_EQ(*access.Admit({.authorization = {}, .peer = peer}), "dns:ops");
  const net::Peer unnamed{.address = "192.0.2.1:4711"};
  EXPECT_EQ(*access.Admit({.authorization = "Bearer sesame", .peer = unnamed}), "the admin token");
  const AdminAccess trusted{.trusted_listener = true};
  EXPECT_EQ(*trusted.Admit({.authorization = {}, .peer = unnamed}), "the admin socket");
}

TEST(WrongTokens, EachPeer_MayTryTenAtOnceThenOneASecond) {
  MetricsRegistry metrics;
  WrongTokens wrong(metrics);
  const net::Peer guesser{.address = "192.0.2.1:4711", .network = "192.0.2.1"};
  const net::Peer same{.address = "192.0.2.1:4712", .network = "192.0.2.1"};
  const net::Peer other{.address = "192.0.2.2:4711", .network = "192.0.2.2"};
  SteadyTime now = SteadyNow();
  const auto tries = [&] {
    int count = 0;
    for (; count < 100 && wrong.MayTry(guesser, now); ++count) wrong.Note(guesser, now);
    return count;
  };
  EXPECT_EQ(tries(), 10);
  EXPECT_FALSE(wrong.MayTry(same, now));
  EXPECT_TRUE(wrong.MayTry(other, now));
  now += std::chrono::seconds(1);
  EXPECT_EQ(tries(), 1);
  now += std::chrono::hours(1);
  EXPECT_EQ(tries(), 10);
  const std::string page = metrics.Render();
  EXPECT_NE(page.find("sluice_admin_refused_total{reason=\"wrong_token\"} 21"), page.npos) << page;
  EXPECT_NE(page.find("sluice_admin_refused_total{reason=\"slowed\"} 4"), page.npos) << page;
}

// Even the right token is refused: otherwise, the peer could continue to guess.
TEST(AdminAccess, PeerWithManyWrongTokens_IsRefusedWithoutComparison) {
  MetricsRegistry metrics;
  WrongTokens wrong(metrics);
  const Secret sesame("sesame");
  const AdminAccess access{.token = &sesame, .identities = {"dns:ops"}, .wrong_tokens = &wrong};
  const net::Peer peer{.address = "192.0.2.1:4711"};
  for (int i = 0; i < 10; ++i) {
    const AdminAccess::Caller caller{.authorization = "Bearer wrong", .peer = peer};
    EXPECT_EQ(access.Admit(caller).error().code, ErrorCode::kUnauthenticated);
    access.NoteRefused(caller);
  }
  const auto refused = access.Admit({.authorization = "Bearer sesame", .peer = peer});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  const net::Peer named{.address = "192.0.2.1:4711", .identities = {"dns:ops"}};
  EXPECT_TRUE(access.Admit({.authorization = {}, .peer = named}))
      << "callers with certificates are not refused";
}

}  // namespace
}  // namespace sluice
