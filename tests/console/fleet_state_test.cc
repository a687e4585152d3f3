// The merge of the frames of several servers.
#include "console/fleet_state.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Optional;

ServerWatch::State Server(const std::string& name, const std::string& frame) {
  auto parsed = std::make_shared<v1::WatchFrame>();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(frame, parsed.get())) << frame;
  return {.name = name, .last = parsed, .frames = 1, .error = {}, .connected = true};
}

ServerWatch::State Down(const std::string& name, const std::string& why) {
  return {.name = name, .last = nullptr, .error = Error{ErrorCode::kUnavailable, why}};
}

FleetState MergeOf(const std::vector<ServerWatch::State>& servers) { return Merge(servers); }

std::string RuleFrame(const std::string& seconds, const std::string& decisions,
                      const std::string& rule = "r") {
  return "period {" + seconds + "} rules { domain: 'shop' rule: '" + rule + "' decisions { " +
         decisions + " } }";
}

TEST(FleetState, DecisionsOfARule_AreSummedAsRates) {
  const auto fleet =
      MergeOf({Server("a", RuleFrame("seconds: 2", "source: SOURCE_STORE allowed: 10 denied: 4")),
               Server("b", RuleFrame("nanos: 500000000", "source: SOURCE_DENY_CACHE denied: 3"))});
  ASSERT_EQ(fleet.rules.size(), 1U);
  const RuleState& rule = fleet.rules[0];
  EXPECT_EQ(rule.domain + "/" + rule.rule, "shop/r");
  EXPECT_DOUBLE_EQ(rule.rate.allowed, 5);
  EXPECT_DOUBLE_EQ(rule.rate.denied, 2 + 6);
  EXPECT_DOUBLE_EQ(rule.by_source[v1::SOURCE_STORE].denied, 2);
  EXPECT_DOUBLE_EQ(rule.by_source[v1::SOURCE_DENY_CACHE].denied, 6);
  EXPECT_DOUBLE_EQ(fleet.rate.denied, 8);
  EXPECT_DOUBLE_EQ(fleet.servers[0].rate.denied, 2);
  EXPECT_DOUBLE_EQ(fleet.servers[1].rate.denied, 6);
}

TEST(FleetState, ShadowRules_AreShownButNotInTheTotal) {
  const auto fleet =
      MergeOf({Server("a",
                      "period { seconds: 1 } rules { domain: 'shop' rule: 'trial' shadow: true "
                      "decisions { source: SOURCE_STORE allowed: 1 denied: 7 } }")});
  ASSERT_EQ(fleet.rules.size(), 1U);
  EXPECT_TRUE(fleet.rules[0].shadow);
  EXPECT_DOUBLE_EQ(fleet.rules[0].rate.denied, 7);
  EXPECT_DOUBLE_EQ(fleet.rate.all(), 0);
}

// A newer server may send sources that this version does not have.
TEST(FleetState, UnknownSource_CountsAsUnspecified) {
  const auto fleet = MergeOf({Server("a", RuleFrame("seconds: 1", "source: 77 allowed: 3"))});
  EXPECT_DOUBLE_EQ(fleet.rules.at(0).by_source[v1::SOURCE_UNSPECIFIED].allowed, 3);
}

TEST(FleetState, ServerThatIsDown_IsNamedAndAddsNothing) {
  const auto fleet =
      MergeOf({Down("a", "no route"),
               Server("b", RuleFrame("seconds: 1", "source: SOURCE_STORE allowed: 2"))});
  ASSERT_EQ(fleet.servers.size(), 2U);
  EXPECT_FALSE(fleet.servers[0].answers);
  EXPECT_EQ(fleet.servers[0].name + ": " + fleet.servers[0].error, "a: no route");
  EXPECT_TRUE(fleet.servers[1].answers);
  EXPECT_DOUBLE_EQ(fleet.rate.allowed, 2);
}

TEST(FleetState, Latencies_AreQuantilesOfAllServers) {
  const auto histogram = [](const std::string& counts) {
    return "period { seconds: 1 } check_latency { bounds: [0.001, 0.002] counts: [" + counts +
           "] }";
  };
  const auto fleet =
      MergeOf({Server("a", histogram("10, 0, 0")), Server("b", histogram("0, 10, 0"))});
  EXPECT_DOUBLE_EQ(fleet.checks_per_second, 20);
  EXPECT_THAT(fleet.servers[0].checks.p50, Optional(DoubleNear(500, 1)));  // interpolated
  EXPECT_THAT(fleet.servers[1].checks.p50, Optional(DoubleNear(1500, 1)));
  EXPECT_THAT(fleet.checks.p50, Optional(DoubleNear(1000, 1)));
  EXPECT_THAT(fleet.checks.p99, Optional(DoubleNear(1980, 1)));
  EXPECT_EQ(fleet.store.p50, std::nullopt);  // no latencies of the store
  EXPECT_THAT(MergeOf({Server("a", histogram("0, 0, 5"))}).checks.p50,
              Optional(DoubleNear(2000, 1)));  // beyond the bounds
}

TEST(FleetState, HistogramWhoseBoundsDifferFromTheFirst_IsLeftOut) {
  const auto fleet =
      MergeOf({Server("a", "check_latency { bounds: 0.001 counts: [10, 0] }"),
               Server("b", "check_latency { bounds: [0.5, 0.6] counts: [10, 10, 10] }")});
  EXPECT_THAT(fleet.checks.p99, Optional(DoubleNear(990, 1)));
}

TEST(FleetState, Keys_AreSummedByDigestAndSorted) {
  const auto keys = [](const std::string& keys) {
    return "period { seconds: 1 } keys { " + keys + " }";
  };
  const auto fleet = MergeOf(
      {Server("a",
              keys("denied { digest: 'x' count: 5 error: 1 } denied { digest: 'y' count: 4 }")),
       Server("b",
              keys("denied { digest: 'y' count: 4 error: 2 } used { digest: 'x' count: 1 }"))});
  ASSERT_EQ(fleet.denied.size(), 2U);
  EXPECT_EQ(fleet.denied[0].digest, "y");
  EXPECT_EQ(fleet.denied[0].count, 8U);
  EXPECT_EQ(fleet.denied[0].error, 2U);
  EXPECT_EQ(fleet.denied[1].count, 5U);
  EXPECT_THAT(fleet.used, ElementsAre(Field(&KeyState::count, 1)));
}

// The subject is the part of a key with the attributes and values of `per`.
TEST(FleetState, Subject_IsThePartAfterTheRule) {
  const std::pair<std::string, std::string> cases[] = {
      {"sluice:{shop/per-user/user=42}:fixed_window:1m", "user=42"},
      {"sluice:{shop/per-user/user=42/ip=10.0.0.0/24}:sliding_window:1m:6",
       "user=42/ip=10.0.0.0/24"},
      {"sluice:{shop/whole-site/}:token_bucket:1s", ""},
      {"sluice:{shop/per-user/user=a%7D:concurrency}:concurrency", "user=a%7D:concurrency"},
      {"sluice:{shop/user=42}per-user/user=42/n=1:leaky_bucket:1s=tokens", "user=42/n=1"},
      {"", ""},
      {"}:fixed_window", ""},
      {"nonsense", ""},
  };
  for (const auto& [key, subject] : cases) {
    auto state = Server("a", "keys { denied { digest: 'x' count: 1 } }");
    v1::WatchFrame frame = *state.last;
    frame.mutable_keys()->mutable_denied(0)->set_key(key);
    state.last = std::make_shared<v1::WatchFrame>(frame);
    EXPECT_EQ(MergeOf({state}).denied.at(0).subject, subject) << key;
  }
}

TEST(FleetState, Json_HasEveryServerRuleAndKey) {
  const auto json = ToJson(MergeOf(
      {Down("a", "gone"),
       Server("b", RuleFrame("seconds: 1", "source: SOURCE_FALLBACK denied: 3") +
                       " keys { denied { domain: 'shop' rule: 'r' digest: 'x' count: 3 } }")}));
  EXPECT_EQ(json["servers"][0]["error"], "gone");
  EXPECT_EQ(json["servers"][1]["error"], nullptr);
  EXPECT_EQ(json["rules"][0]["sources"]["fallback"]["denied_per_second"], 3);
  EXPECT_EQ(json["check_latency"]["p99_us"], nullptr);
  EXPECT_EQ(json["most_denied"][0]["key"], nullptr);
  EXPECT_EQ(json["most_denied"][0]["count"], 3);
  EXPECT_THAT(json["most_used"], IsEmpty());
}

}  // namespace
}  // namespace sluice
