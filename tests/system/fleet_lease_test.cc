// Leases in a fleet: the limit holds, no matter which servers grant, renew and release a lease. If
// a lease is not released, its slot is free after its ttl.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/thread.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kCallers = 100;
constexpr int kRounds = 10;
constexpr int kLimit = 50;
constexpr milliseconds kShortTtl(1'000);

constexpr char kRules[] = R"yaml(
domain: fleet
rules:
  - name: jobs
    match: {endpoint: /jobs}
    limits:
      - {algorithm: concurrency, limit: 50, ttl: 60s}
  - name: mortal
    match: {endpoint: /mortal}
    limits:
      - {algorithm: concurrency, limit: 1, ttl: 1s}
  - name: rated
    match: {endpoint: /rated}
    limits:
      - {algorithm: concurrency, limit: 5, ttl: 60s}
      - {algorithm: fixed_window, limit: 1, window: 1h}
)yaml";

class FleetLeaseTest : public testing::Test {
 protected:
  Answer Check(const std::string& endpoint, int server = 0) {
    const Answer answer = fleet_.Check(CheckOf("fleet", endpoint), server);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_EQ(answer.response.source(), v1::SOURCE_STORE);
    return answer;
  }
  std::uint64_t Free(const std::string& endpoint) {
    v1::CheckLimitRequest request = CheckOf("fleet", endpoint);
    request.set_mode(v1::MODE_PEEK);
    return fleet_.Check(request).response.limits(0).remaining();
  }

  RedisServer redis_;
  Fleet fleet_{{.rules = kRules, .servers = 3}, &redis_};
};

// Counts the callers that hold a lease. A caller counts from the answer that grants its lease until
// just before it releases the lease.
class Gauge {
 public:
  void Enter() {
    const int held = ++held_;
    int most = most_;
    while (held > most && !most_.compare_exchange_weak(most, held)) {
    }
  }
  void Leave() { --held_; }
  int most() const { return most_; }

 private:
  std::atomic<int> held_ = 0;
  std::atomic<int> most_ = 0;
};

TEST_F(FleetLeaseTest, TwiceAsManyCallersAsSlots_NeverHoldMoreThanTheLimit) {
  Gauge gauge;
  std::atomic<int> denied = 0;
  const auto hold_once = [&](int server) {
    Answer answer;
    ASSERT_TRUE(WaitUntil(seconds(30), [&] {
      answer = Check("/jobs", server);
      denied += answer.denied() ? 1 : 0;
      return answer.allowed();
    }));
    gauge.Enter();
    const std::string& id = answer.response.lease().id();
    EXPECT_TRUE(fleet_.RenewLease(id, (server + 1) % fleet_.size()).ok());
    gauge.Leave();
    EXPECT_TRUE(fleet_.ReleaseLease(id, (server + 2) % fleet_.size()).ok());
  };
  std::vector<Thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back("caller", [&hold_once, server = i % fleet_.size()] {
      for (int round = 0; round < kRounds; ++round) hold_once(server);
    });
  }
  for (Thread& caller : callers) caller.Join();
  EXPECT_LE(gauge.most(), kLimit);
  EXPECT_GT(gauge.most(), kLimit / 2) << "with fewer holders, the test would show nothing";
  EXPECT_GT(denied, 0);
  EXPECT_EQ(Free("/jobs"), static_cast<std::uint64_t>(kLimit));
}

TEST_F(FleetLeaseTest, HolderDies_SlotIsFreeWhenTheLeaseExpires) {
  const Answer first = Check("/mortal");
  ASSERT_TRUE(first.allowed());
  Answer next;
  ASSERT_TRUE(WaitUntil(10 * kShortTtl, [&] {
    next = Check("/mortal", 1);
    return next.allowed();
  }));
  const Duration held = next.decided_at() - first.decided_at();
  EXPECT_GE(held, kShortTtl);
  EXPECT_LE(held, kShortTtl + seconds(1));
  const auto late = fleet_.RenewLease(first.response.lease().id(), 2);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(FleetLeaseTest, OtherLimitDenies_NoLeaseIsGrantedAndRedisHasNoKey) {
  v1::CheckLimitRequest request = CheckOf("fleet", "/rated");
  request.set_cost(2);
  for (int server = 0; server < fleet_.size(); ++server) {
    const Answer answer = fleet_.Check(request, server);
    EXPECT_TRUE(answer.denied());
    EXPECT_FALSE(answer.response.has_lease());
  }
  EXPECT_TRUE(redis_.Connect().Keys().empty());
}

}  // namespace
}  // namespace sluice::test
