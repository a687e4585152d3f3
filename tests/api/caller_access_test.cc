// Identification of callers, and their rights.
#include "api/caller_access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/captured_log.h"
#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CallerAccessTest : public ::testing::Test {
 protected:
  std::unique_ptr<CallerAccess> Load() {
    return CallerAccess::Load({{.name = "shop",
                                .token_file = dir_.Write("shop", "open-sesame\nnext\n"),
                                .identities = {"uri:spiffe://shop"},
                                .domains = {"shop", "a/b"}},
                               {.name = "peeker",
                                .token_file = dir_.Write("peeker", "peek\n"),
                                .domains = {"*"},
                                .rights = {CallerRight::kPeek, CallerRight::kMetrics}},
                               {.name = "janitor",
                                .identities = {"uri:spiffe://janitor"},
                                .domains = {"*"},
                                .rights = {CallerRight::kLease}}},
                              metrics_)
        .value();
  }

  // The name of the identified caller; "" if unknown.
  static std::string NameOf(const CallerAccess& access,
                            std::optional<std::string_view> authorization,
                            const std::vector<std::string>& identities = {}) {
    const auto caller = access.Identify(authorization, identities);
    if (caller) return (*caller)->name;
    EXPECT_EQ(caller.error().code, ErrorCode::kUnauthenticated);
    return "";
  }

  const test::TempDir dir_;
  MetricsRegistry metrics_;
};

TEST_F(CallerAccessTest, Identify_KnownTokenOrCertificate_ReturnsItsCaller) {
  const auto access = Load();
  EXPECT_EQ(NameOf(*access, "Bearer open-sesame"), "shop");
  EXPECT_EQ(NameOf(*access, "bearer next"), "shop");
  EXPECT_EQ(NameOf(*access, "Bearer peek"), "peeker");
  EXPECT_EQ(NameOf(*access, {}, {"other", "uri:spiffe://shop"}), "shop");
  EXPECT_EQ(NameOf(*access, "Bearer peek", {"uri:spiffe://shop"}), "shop");
  EXPECT_EQ(NameOf(*access, "Bearer peek", {"other"}), "peeker");
  for (const char* wrong : {"", "Bearer ", "Bearer open", "open-sesame", "Bearer open-sesame "}) {
    EXPECT_EQ(NameOf(*access, wrong, {"other", "", "shop"}), "") << wrong;
  }
  EXPECT_EQ(NameOf(*access, {}), "");
}

TEST_F(CallerAccessTest, MayCheck_OnlyInTheCallersDomainsAndModes) {
  const auto access = Load();
  const Caller& shop = **access->Identify("Bearer next", {});
  const Caller& peeker = **access->Identify("Bearer peek", {});
  const struct {
    const Caller& caller;
    std::string_view domain;
    Mode mode;
    std::int64_t cost;
    bool may;
  } rows[] = {
      {shop, "shop", Mode::kConsume, 1, true},   {shop, "a/b", Mode::kCharge, 1, true},
      {shop, "shop", Mode::kRefund, 1, true},    {shop, "shop", Mode::kConsume, 0, true},
      {shop, "", Mode::kConsume, 1, false},      {shop, "*", Mode::kConsume, 1, false},
      {shop, "shops", Mode::kConsume, 1, false}, {peeker, "any", Mode::kPeek, 1, true},
      {peeker, "any", Mode::kConsume, 0, true},  {peeker, "any", Mode::kConsume, 1, false},
      {peeker, "any", Mode::kCharge, 1, false},  {peeker, "any", Mode::kRefund, 1, false},
  };
  for (const auto& row : rows) {
    CheckRequest request;
    request.domain = row.domain;
    request.cost = row.cost;
    request.demand.mode = row.mode;
    const auto may = access->MayCheck(row.caller, request);
    EXPECT_EQ(may.has_value(), row.may) << row.caller.name << " in " << row.domain;
    if (may) {
      EXPECT_EQ(request.may_lease, &row.caller == &shop);
    } else {
      EXPECT_EQ(may.error().code, ErrorCode::kPermissionDenied);
    }
  }
  EXPECT_FALSE(access->MayReadMetrics(shop));
  EXPECT_TRUE(access->MayReadMetrics(peeker));
}

// A CONSUME check with cost 0 still takes units if it has amounts, so a caller that may only peek
// must not send it.
TEST_F(CallerAccessTest, CostOfZeroWithAmounts_IsNotAPeek) {
  const auto access = Load();
  const Caller& peeker = **access->Identify("Bearer peek", {});
  const auto may = [&](Mode mode, std::int64_t tokens) {
    CheckRequest request{.domain = "any", .cost = 0, .amounts = {{"tokens", tokens}}};
    request.demand.mode = mode;
    return access->MayCheck(peeker, request).has_value();
  };
  EXPECT_TRUE(may(Mode::kConsume, 0));
  EXPECT_TRUE(may(Mode::kPeek, 7));
  EXPECT_FALSE(may(Mode::kConsume, 7));
  EXPECT_FALSE(may(Mode::kCharge, 7));
  EXPECT_FALSE(may(Mode::kConsume, -1)) << "an invalid amount is not a peek either";
}

TEST_F(CallerAccessTest, MayUseLease_OnlyIfAllItsKeysAreOfTheCallersDomains) {
  const auto access = Load();
  const Caller& shop = **access->Identify("Bearer next", {});
  const auto lease = [](const std::string& keys) {
    return "1.000102030405060708090a0b0c0d0e0f.1000000.store " + keys;
  };
  const std::string own = "sluice:{shop/slots/42}:concurrency";
  const std::string escaped = "sluice:{a%2Fb/user=42}slots:concurrency";
  EXPECT_TRUE(access->MayUseLease(shop, lease(own)));
  EXPECT_TRUE(access->MayUseLease(shop, lease(own + " " + escaped)));
  for (const char* foreign :
       {"sluice:{shops/slots/42}:concurrency", "sluice:{bank/slots/42}:concurrency",
        "sluice:{shop}:concurrency", "sluice:{a/b/slots}:concurrency"}) {
    EXPECT_FALSE(access->MayUseLease(shop, lease(own + " " + foreign))) << foreign;
  }
  EXPECT_FALSE(access->MayUseLease(**access->Identify("Bearer peek", {}), lease(own)));
  const std::vector<std::string> janitor{"uri:spiffe://janitor"};
  EXPECT_TRUE(access->MayUseLease(**access->Identify({}, janitor), lease(own)));
}

TEST_F(CallerAccessTest, RefusedCallers_AreCounted) {
  const auto access = Load();
  const auto refused = [this](const char* reason) {
    return metrics_.CounterFor("sluice_callers_refused_total", "", {{"reason", reason}}).Value();
  };
  const Caller& peeker = **access->Identify("Bearer peek", {});
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(access->Identify("Bearer other", {}));
  EXPECT_FALSE(access->MayAsk(peeker, "shop", CallerRight::kConsume));
  EXPECT_EQ(refused("unknown"), 2U);
  EXPECT_EQ(refused("forbidden"), 1U);
}

TEST_F(CallerAccessTest, ReloadTokens_TakesNewTokens_KeepsTheOldIfTheNewAreInvalid) {
  const test::CapturedLog log;
  const auto access = Load();
  dir_.Write("shop", "third\n");
  access->ReloadTokens();
  access->ReloadTokens();  // the file has not changed
  EXPECT_EQ(NameOf(*access, "Bearer third"), "shop");
  EXPECT_EQ(NameOf(*access, "Bearer next"), "");
  for (const char* wrong : {"", "peek\n", "two words\n"}) {
    dir_.Write("shop", wrong);
    access->ReloadTokens();
    access->ReloadTokens();
    EXPECT_EQ(NameOf(*access, "Bearer third"), "shop") << wrong;
    EXPECT_EQ(NameOf(*access, "Bearer peek"), "peeker") << wrong;
  }
  EXPECT_EQ(log.CountLines("tokens have changed"), 1);
  EXPECT_EQ(log.CountLines("stay in use"), 3) << "once for each cause";
  EXPECT_THAT(log.text(), Not(HasSubstr("two words")));
}

TEST_F(CallerAccessTest, ReloadTokens_OneFileIsInvalid_OtherCallersGetTheirNewTokens) {
  const auto access = Load();
  dir_.Write("shop", "");
  dir_.Write("peeker", "new-peek\n");
  access->ReloadTokens();
  EXPECT_EQ(NameOf(*access, "Bearer open-sesame"), "shop");
  EXPECT_EQ(NameOf(*access, "Bearer new-peek"), "peeker");
  EXPECT_EQ(NameOf(*access, "Bearer peek"), "") << "revoked";
}

TEST_F(CallerAccessTest, Load_SharedTokenOrIdentity_Fails) {
  const std::string file = dir_.Write("token", "same\n");
  EXPECT_FALSE(CallerAccess::Load(
      {{.name = "a", .token_file = file}, {.name = "b", .token_file = file}}, metrics_));
  EXPECT_FALSE(CallerAccess::Load(
      {{.name = "a", .identities = {"x"}}, {.name = "b", .identities = {"y", "x"}}}, metrics_));
  EXPECT_FALSE(CallerAccess::Load({{.name = "a", .token_file = "/no/such"}}, metrics_));
}

}  // namespace
}  // namespace sluice
