// Tests and prints what a fleet with the policy `local` admits while Redis is down, and what Redis
// counts when it is back.
//
//   build/release/tests/outage_test [--seconds 30]     how long Redis is down under load
#include <algorithm>
#include <array>
#include <atomic>
#include <iostream>

#include "base/thread.h"
#include "tests/support/http_get.h"
#include "tests/support/wait_until.h"
#include "tests/system/outage_fixture.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

// An override gives the user `auditor` a higher limit on the same counter. So a peek by this user
// also shows units over the limit of 3000.
constexpr char kRules[] = R"yaml(
domain: outage
rules:
  - name: daily
    match: {endpoint: /daily}
    limits:
      - {algorithm: fixed_window, limit: 3000, window: 1d}
    overrides:
      - match: {user: auditor}
        limits:
          - {algorithm: fixed_window, limit: 1000000, window: 1d}
  - name: bucket
    match: {endpoint: /bucket}
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 3000}
  - name: sliding
    match: {endpoint: /sliding}
    limits:
      - {algorithm: sliding_window, limit: 3000, window: 1d}
    overrides:
      - match: {user: auditor}
        limits:
          - {algorithm: sliding_window, limit: 1000000, window: 1d}
)yaml";

constexpr std::array<const char*, 3> kEndpoints{"/daily", "/bucket", "/sliding"};

class LocalOutageTest : public OutageTest {
 protected:
  LocalOutageTest() : OutageTest(kRules) {}

  // The units that Redis counts. For a bucket, at most its burst, because `remaining` is 0 for any
  // debt.
  std::int64_t Counted(const std::string& endpoint) {
    if (endpoint == "/bucket") return kLimit - Remaining(CheckOf("outage", endpoint));
    return 1'000'000 - Remaining(CheckOf("outage", endpoint, "auditor"));
  }

  void UseHalf() {
    for (const char* endpoint : kEndpoints) {
      EXPECT_EQ(CountAllowed(Run(CheckOf("outage", endpoint), kLimit / 2)), kLimit / 2);
    }
  }

  // Sends checks to all endpoints, stops Redis, and continues until `outage_length` has passed.
  // With `recovery`, then starts Redis, and continues for 500 checks after all servers use it.
  // Without `recovery`, then sends checks to each server until it denies one.
  Answers RunThroughOutage(bool recovery);
};

Answers LocalOutageTest::RunThroughOutage(bool recovery) {
  const auto length = std::chrono::duration<double>(outage_length).count();
  std::atomic<int> sent = 0;
  std::atomic<bool> done = false;
  Answers answers;
  Thread load("load", [&] {
    answers = fleet_.Run({.callers = kCallers,
                          .rate = kEndpoints.size() * kLimit / length,
                          .request =
                              [&](int i) {
                                ++sent;
                                return CheckOf("outage", kEndpoints[i % kEndpoints.size()]);
                              },
                          .go_on = [&] { return !done; }});
  });
  EXPECT_TRUE(WaitUntil(seconds(20), [&] { return sent >= 100; }));
  redis_.Shutdown();
  const SteadyTime end = SteadyNow() + outage_length;
  WaitUntil(2 * outage_length, [&] { return SteadyNow() >= end; });
  if (recovery) {
    RestartRedis(CheckOf("outage", "/daily", "auditor"));
    const int some = sent + 500;
    EXPECT_TRUE(WaitUntil(seconds(20), [&] { return sent >= some; }));
  }
  done = true;
  load.Join();
  if (recovery) return answers;
  for (int i = 0; i < static_cast<int>(kEndpoints.size()); ++i) {
    for (Answer& answer : AskUntilDenied(CheckOf("outage", kEndpoints[i]))) {
      answer.index = i;
      answers.push_back(std::move(answer));
    }
  }
  return answers;
}

// The checks of `endpoint`.
Answers Of(const Answers& answers, const std::string& endpoint) {
  Answers found;
  std::copy_if(answers.begin(), answers.end(), std::back_inserter(found), [&](const Answer& it) {
    return kEndpoints[it.index % kEndpoints.size()] == endpoint;
  });
  return found;
}

// Each server gets a last answer from Redis. Counts the units that Redis admitted after the
// earliest of these answers. The server that got this answer does not know of the units, so it
// admits its share of them again.
int CountUnseen(const Answers& answers, int servers) {
  std::vector<Time> seen(servers);
  for (const Answer& it : answers) {
    if (it.of_store()) seen[it.server] = std::max(seen[it.server], it.decided_at());
  }
  const Time by_all = *std::min_element(seen.begin(), seen.end());
  return static_cast<int>(std::count_if(answers.begin(), answers.end(), [&](const Answer& it) {
    return it.of_store() && it.allowed() && it.decided_at() > by_all;
  }));
}

int CountFallbackAdmissions(const Answers& answers) {
  return static_cast<int>(std::count_if(answers.begin(), answers.end(), [](const Answer& it) {
    return it.allowed() && it.response.source() == v1::SOURCE_FALLBACK;
  }));
}

TEST_F(LocalOutageTest, RedisStopsUnderLoad_HalfIsUsed_FleetAdmitsTheRest) {
  UseHalf();
  const Answers all = RunThroughOutage(/*recovery=*/false);
  RestartRedis(CheckOf("outage", "/daily", "auditor"));
  for (const std::string endpoint : kEndpoints) {
    SCOPED_TRACE(endpoint);
    const Answers answers = Of(all, endpoint);
    const int meanwhile = CountFallbackAdmissions(answers);
    const int admitted = kLimit / 2 + CountAllowed(answers);
    const int in_flight = kCallers + CountUnseen(answers, kServers);
    EXPECT_LE(admitted, kLimit + in_flight);
    EXPECT_GE(admitted, kLimit - in_flight);
    const int most = endpoint == "/bucket" ? std::min(admitted, kLimit) : admitted;
    EXPECT_TRUE(WaitUntil(seconds(30), [&] { return Counted(endpoint) >= most - kCallers; }));
    EXPECT_NEAR(Counted(endpoint), most, kCallers);
    std::cout << endpoint << ": limit " << kLimit << ", admitted " << admitted - meanwhile
              << " by Redis, " << meanwhile << " while it was down, in all " << admitted
              << "; in flight " << in_flight << "; counted by Redis afterward " << Counted(endpoint)
              << "\n";
  }
}

// Servers reconnect one after another, and each charges the units that it admitted.
TEST_F(LocalOutageTest, RedisIsBackUnderLoad_FleetAdmitsAtMostTheLimitAndUnitsInFlight) {
  UseHalf();
  const Answers all = RunThroughOutage(/*recovery=*/true);
  for (const std::string endpoint : kEndpoints) {
    SCOPED_TRACE(endpoint);
    const Answers answers = Of(all, endpoint);
    const auto first = std::find_if(answers.begin(), answers.end(),
                                    [](const Answer& it) { return !it.of_store(); });
    ASSERT_NE(first, answers.end());
    const int in_flight = 2 * kCallers + CountUnseen({answers.begin(), first}, kServers);
    const int admitted = kLimit / 2 + CountAllowed(answers);
    EXPECT_LE(admitted, kLimit + in_flight);
    std::cout << endpoint << ": limit " << kLimit << ", admitted " << admitted
              << " until Redis was back and the units were charged; in flight " << in_flight
              << "\n";
  }
}

TEST_F(LocalOutageTest, OneServerSawNoneOfTheUnitsTaken_ItAdmitsItsShareAgain) {
  const v1::CheckLimitRequest daily = CheckOf("outage", "/daily");
  EXPECT_EQ(Remaining(daily, 0), kLimit);
  for (int i = 0; i < kLimit; ++i) EXPECT_TRUE(fleet_.Check(daily, 1 + i % 2).allowed());
  for (int server : {1, 2}) EXPECT_EQ(Remaining(daily, server), 0);
  redis_.Shutdown();
  const int meanwhile = CountAllowed(Run(daily, kLimit)) + CountAllowed(AskUntilDenied(daily));
  EXPECT_EQ(meanwhile, kLimit / kServers);
  RestartRedis(CheckOf("outage", "/daily", "auditor"));
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return Counted("/daily") >= kLimit + meanwhile; }));
  EXPECT_EQ(Counted("/daily"), kLimit + meanwhile);
  std::cout << "worst staleness: limit " << kLimit << ", all admitted by Redis, " << meanwhile
            << " while it was down; counted by Redis afterward " << Counted("/daily") << "\n";
}

TEST_F(LocalOutageTest, RedisStopsWithNothingLeft_NothingIsAdmitted) {
  const v1::CheckLimitRequest daily = CheckOf("outage", "/daily");
  EXPECT_EQ(CountAllowed(Run(daily, kLimit + 100)), kLimit);
  for (int i = 0; i < kServers; ++i) EXPECT_EQ(Remaining(daily, i), 0);
  redis_.Kill();
  EXPECT_EQ(CountAllowed(Run(daily, 300)), 0);
}

TEST_F(LocalOutageTest, ServerStartsInAnOutage_AdmitsNothing_IsReadyAfterReachingRedis) {
  redis_.Shutdown();
  Fleet late({.rules = kRules, .servers = 1}, &redis_);
  const Answers answers = late.Run({.callers = 2, .checks = 300, .request = [](int i) {
                                      return CheckOf("outage", kEndpoints[i % kEndpoints.size()]);
                                    }});
  EXPECT_EQ(CountAllowed(answers), 0);
  std::cout << "started while Redis is down: " << CountAllowed(answers) << " of " << answers.size()
            << " admitted\n";
  const auto ready = [&](Fleet& fleet) {
    return HttpGet(fleet.server(0).http_address(), "/readyz").status == 200;
  };
  EXPECT_FALSE(ready(late));
  EXPECT_TRUE(ready(fleet_)) << "this server has reached Redis before";
  redis_.Start();
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return ready(late); }));
  EXPECT_TRUE(late.Check(CheckOf("outage", "/daily")).allowed());
}

}  // namespace
}  // namespace sluice::test
