// What a whole fleet admits while Redis is away, and what Redis counts when it is back; printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

#include "tests/support/http_get.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kServers = 3;
constexpr int kLimit = 3'000;

constexpr char kRules[] = R"yaml(
domain: outage
rules:
  - name: daily
    match: {endpoint: /daily}
    limits:
      - {algorithm: fixed_window, limit: 3000, window: 1d}
  - name: bucket
    match: {endpoint: /bucket}
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 3000}
  - name: sliding
    match: {endpoint: /sliding}
    limits:
      - {algorithm: sliding_window, limit: 3000, window: 1d}
)yaml";

class OutageSystemTest : public testing::Test {
 protected:
  OutageSystemTest() {
    // All have counted each other.
    EXPECT_TRUE(WaitUntil(seconds(10), [this] {
      for (int i = 0; i < kServers; ++i) {
        const std::string page = HttpGet(fleet_.server(i).http_address(), "/metrics").body;
        if (page.find("sluice_fleet_share 0.333") == std::string::npos) return false;
      }
      return true;
    }));
  }

  Answers Run(const std::string& endpoint, int checks) {
    return fleet_.Run({.callers = 2 * kServers, .checks = checks, .request = [&](int) {
                         return CheckOf("outage", endpoint);
                       }});
  }
  std::int64_t Remaining(const std::string& endpoint, int server = 0) {
    v1::CheckLimitRequest peek = CheckOf("outage", endpoint);
    peek.set_mode(v1::MODE_PEEK);
    const Answer answer = fleet_.Check(peek, server);
    return answer.response.limits_size() == 0
               ? -1
               : static_cast<std::int64_t>(answer.response.limits(0).remaining());
  }

  bool DecidedByStore(const std::string& endpoint) {
    for (int i = 0; i < kServers; ++i) {
      v1::CheckLimitRequest peek = CheckOf("outage", endpoint);
      peek.set_mode(v1::MODE_PEEK);
      if (fleet_.Check(peek, i).response.source() != v1::SOURCE_STORE) return false;
    }
    return true;
  }

  RedisServer redis_;
  Fleet fleet_{{.rules = kRules, .servers = kServers}, &redis_};
};

// Stopped with all it had counted on disk, as an upgrade of Redis does it. Six checks are in flight
// at once.
TEST_F(OutageSystemTest, HalfUsed_TheFleetAdmitsWhatWasLeft_RedisCountsItAfterwards) {
  constexpr int kCallers = 2 * kServers;
  for (const std::string endpoint : {"/daily", "/bucket", "/sliding"}) {
    SCOPED_TRACE(endpoint);
    const int before = CountAllowed(Run(endpoint, kLimit / 2));
    EXPECT_EQ(before, kLimit / 2);
    redis_.Connect().Text({"SAVE"});
    redis_.Kill();
    const Answers answers = Run(endpoint, kLimit);
    EXPECT_EQ(CountFromStore(answers), 0);
    int meanwhile = CountAllowed(answers);
    // On a busy machine some servers are asked less than their share.
    for (int i = 0; i < kServers; ++i) {
      while (meanwhile < 2 * kLimit && fleet_.Check(CheckOf("outage", endpoint), i).allowed()) {
        ++meanwhile;
      }
    }
    EXPECT_GE(before + meanwhile, kLimit - kCallers);
    EXPECT_LE(before + meanwhile, kLimit + kCallers);
    redis_.Start();
    ASSERT_TRUE(WaitUntil(seconds(5), [&] { return DecidedByStore(endpoint); }));
    const auto counted = [&] { return kLimit - Remaining(endpoint); };
    const std::int64_t admitted = std::min(kLimit, before + meanwhile);
    EXPECT_TRUE(WaitUntil(seconds(5), [&] { return counted() >= admitted; }));
    EXPECT_EQ(counted(), admitted);
    std::cout << endpoint << ": " << before << " of " << kLimit << " admitted by Redis, "
              << meanwhile << " while it was away, counted by it afterwards " << counted() << "\n";
  }
}

TEST_F(OutageSystemTest, NothingLeft_NothingIsAdmitted) {
  EXPECT_EQ(CountAllowed(Run("/daily", kLimit + 100)), kLimit);
  for (int i = 0; i < kServers; ++i) EXPECT_EQ(Remaining("/daily", i), 0);
  redis_.Kill();
  EXPECT_EQ(CountAllowed(Run("/daily", 300)), 0);
}

TEST_F(OutageSystemTest, ServerStartedInIt_AdmitsNothing_IsReadyWhenItHasSeenRedis) {
  redis_.Connect().Text({"SAVE"});
  redis_.Kill();
  Fleet late({.rules = kRules, .servers = 1}, &redis_);
  EXPECT_EQ(late.Check(CheckOf("outage", "/daily")).response.decision(), v1::DECISION_DENIED);
  const auto ready = [&](Fleet& fleet) {
    return HttpGet(fleet.server(0).http_address(), "/readyz").status == 200;
  };
  EXPECT_FALSE(ready(late));
  EXPECT_TRUE(ready(fleet_)) << "it has seen Redis before";
  redis_.Start();
  EXPECT_TRUE(WaitUntil(seconds(5), [&] { return ready(late); }));
  EXPECT_TRUE(late.Check(CheckOf("outage", "/daily")).allowed());
}

}  // namespace
}  // namespace sluice::test
