// Tests and prints what a fleet admits while Redis is down: with the policies `allow`, `deny` and
// `error`. For concurrency slots, also with `local`.
//
//   build/release/tests/outage_policies_test
#include <iostream>
#include <set>

#include "tests/support/wait_until.h"
#include "tests/system/outage_fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kAsked = 300;
constexpr int kSlots = 30;

std::string RuleOf(const std::string& name, const std::string& policy, const std::string& limit) {
  return "  - name: " + name + "\n    match: {endpoint: /" + name + "}\n    per: [user]\n" +
         "    on_store_failure: " + policy + "\n    deny_cache: false\n    limits: [" + limit +
         "]\n";
}

// Three rules for each policy, with the endpoints "/allow", "/allow-second", "/allow-slots", and so
// on.
std::string Rules() {
  std::string rules = "domain: outage\nrules:\n";
  for (const std::string policy : {"local", "allow", "deny", "error"}) {
    rules += RuleOf(policy, policy, "{algorithm: fixed_window, limit: 100, window: 1d}");
    rules += RuleOf(policy + "-second", policy, "{algorithm: fixed_window, limit: 10, window: 1s}");
    rules += RuleOf(policy + "-slots", policy, "{algorithm: concurrency, limit: 30, ttl: 1h}");
  }
  return rules;
}

class OutagePoliciesTest : public OutageTest, public testing::WithParamInterface<const char*> {
 protected:
  OutagePoliciesTest() : OutageTest(Rules()) {}

  static v1::CheckLimitRequest Of(const std::string& kind, const std::string& user) {
    return CheckOf("outage", std::string("/") + GetParam() + kind, user);
  }

  // Sends the checks to the servers in turn, from this thread.
  Answers Ask(const v1::CheckLimitRequest& request, int checks = kAsked) {
    Answers answers;
    for (int i = 0; i < checks; ++i) answers.push_back(fleet_.Check(request, i % kServers));
    return answers;
  }
};

INSTANTIATE_TEST_SUITE_P(Policy, OutagePoliciesTest, testing::Values("allow", "deny", "error"),
                         [](const auto& it) { return std::string(it.param); });

// In every state of the counter, `allow` admits everything, and `deny` and `error` admit nothing.
TEST_P(OutagePoliciesTest, RedisIsDown_AdmitsEverythingOrNothing) {
  EXPECT_EQ(CountAllowed(Ask(Of("", "half"), 50)), 50);
  EXPECT_EQ(CountAllowed(Ask(Of("", "spent"), 100)), 100);
  redis_.Shutdown();
  const int expected = std::string_view(GetParam()) == "allow" ? kAsked : 0;
  for (const char* user : {"half", "spent", "never-seen"}) {
    const int admitted = CountAllowed(Ask(Of("", user)));
    EXPECT_EQ(admitted, expected);
    std::cout << GetParam() << ", limit 100, " << user << ": " << admitted << " of " << kAsked
              << " admitted while Redis was down\n";
  }
  const SteadyTime end = SteadyNow() + seconds(2);
  int asked = 0;
  int admitted = 0;
  for (; SteadyNow() < end; ++asked) admitted += CountAllowed(Ask(Of("-second", "windows"), 1));
  EXPECT_EQ(admitted, expected == 0 ? 0 : asked);
  std::cout << GetParam() << ", limit 10 per second, 2 s: " << admitted << " of " << asked
            << " admitted while Redis was down\n";
  Fleet late({.rules = Rules(), .servers = 1}, &redis_);
  const Answers of_late =
      late.Run({.callers = 1, .checks = kAsked, .request = [](int) { return Of("", "late"); }});
  EXPECT_EQ(CountAllowed(of_late), expected);
  std::cout << GetParam() << ", server started meanwhile: " << CountAllowed(of_late) << " of "
            << kAsked << " admitted\n";
  RestartRedis(Of("", "half"));
  const char* const charged = "sluice_fallback_units_total{fate=\"charged\"}";
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return Metric(charged) >= 3 * expected; }));
  EXPECT_EQ(Remaining(Of("", "never-seen")), expected == 0 ? 100 : 0);
  std::cout << GetParam() << ": " << Metric(charged) << " units charged to Redis afterward\n";
}

class OutageSlotsTest : public OutagePoliciesTest {};

INSTANTIATE_TEST_SUITE_P(Policy, OutageSlotsTest,
                         testing::Values("local", "allow", "deny", "error"),
                         [](const auto& it) { return std::string(it.param); });

// Without Redis, servers do not know which slots are held. So with `local`, the fleet grants the
// whole limit a second time: each server grants its share.
TEST_P(OutageSlotsTest, RedisIsDown_LocalGrantsTheLimitAgainAndOthersGrantNoLease) {
  const Answers before = Ask(Of("-slots", "user"), kSlots / 2);
  EXPECT_EQ(CountAllowed(before), kSlots / 2);
  redis_.Shutdown();
  const Answers meanwhile = Ask(Of("-slots", "user"));
  const std::string_view policy = GetParam();
  const int expected = policy == "allow" ? kAsked : policy == "local" ? kSlots : 0;
  EXPECT_EQ(CountAllowed(meanwhile), expected);
  std::set<std::string> leases;
  for (const Answer& it : meanwhile) leases.insert(it.response.lease().id());
  leases.erase("");
  EXPECT_EQ(leases.size(), policy == "local" ? kSlots : 0u);
  std::cout << GetParam() << ", " << kSlots << " slots, half held: " << CountAllowed(meanwhile)
            << " of " << kAsked << " admitted while Redis was down, with " << leases.size()
            << " leases\n";
  RestartRedis(Of("-slots", "other"));
  const int free = policy == "local" ? 0 : kSlots / 2;
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return Remaining(Of("-slots", "user")) == free; }));
  std::cout << GetParam() << ": " << Remaining(Of("-slots", "user"))
            << " slots free in Redis afterward";
  for (const Answer& it : meanwhile) {
    if (it.response.has_lease()) {
      EXPECT_TRUE(fleet_.ReleaseLease(it.response.lease().id(), it.server).ok());
    }
  }
  for (const Answer& it : before) {
    EXPECT_TRUE(fleet_.ReleaseLease(it.response.lease().id(), 1).ok());
  }
  EXPECT_TRUE(WaitUntil(seconds(1), [&] { return Remaining(Of("-slots", "user")) == kSlots; }));
  std::cout << ", " << Remaining(Of("-slots", "user")) << " when all are released\n";
}

}  // namespace
}  // namespace sluice::test
