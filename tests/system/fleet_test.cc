// One limit for a whole fleet: regardless of the number of servers and callers that share a key,
// the fleet admits exactly what the rule allows.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <ostream>

#include "base/thread.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

constexpr int kChecks = 20'000;
constexpr int kLimit = 5'000;
constexpr int kUsers = 40;
constexpr int kUserBurst = 100;

constexpr char kRules[] = R"yaml(
domain: fleet
rules:
  - name: window
    match: {endpoint: /window}
    limits:
      - {algorithm: fixed_window, limit: 5000, window: 1h}
  - name: log
    match: {endpoint: /log}
    limits:
      - {algorithm: sliding_log, limit: 5000, window: 1h}
  - name: bucket
    match: {endpoint: /bucket}
    limits:
      - {algorithm: token_bucket, rate: 100/s, burst: 5000}
  - name: user
    match: {endpoint: [/small-site, /large-site]}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 10/h, burst: 100}
  - name: small-site
    match: {endpoint: /small-site}
    limits:
      - {algorithm: fixed_window, limit: 3000, window: 1h}
  - name: large-site
    match: {endpoint: /large-site}
    limits:
      - {algorithm: fixed_window, limit: 5000, window: 1h}
)yaml";

enum class Kind { kEmbedded, kRedis, kCluster };

struct Topology {
  const char* name;
  Kind kind;
  int servers;

  friend void PrintTo(const Topology& topology, std::ostream* out) { *out << topology.name; }
};

class FleetTest : public testing::TestWithParam<Topology> {
 protected:
  FleetTest()
      : redis_(GetParam().kind == Kind::kRedis ? std::make_unique<RedisServer>() : nullptr),
        cluster_(GetParam().kind == Kind::kCluster ? &EmptyCluster() : nullptr),
        fleet_({.rules = kRules, .servers = GetParam().servers}, redis_     ? redis_->url()
                                                                 : cluster_ ? cluster_->Url()
                                                                            : "") {}

  static RedisCluster& EmptyCluster() {
    static RedisCluster cluster({.masters = 3});
    cluster.Flush();
    return cluster;
  }

  // Whether all counters of a check are in one store, which decides them together. If they are on
  // several nodes, a denied check may have charged some of them. Until such a charge is undone, it
  // may deny other checks.
  bool decides_at_once() const { return cluster_ == nullptr; }

  // Sends kChecks checks from 64 callers. The store or the deny cache must decide all of them.
  Answers RunAll(std::function<v1::CheckLimitRequest(int index)> request) {
    Answers answers = fleet_.Run({.checks = kChecks, .request = std::move(request)});
    EXPECT_EQ(CountFromStore(answers), kChecks);
    return answers;
  }

  // The units left in the rule's first limit, or -1 if the answer does not contain the rule.
  int Remaining(const std::string& rule, const std::string& endpoint,
                const std::string& user = "") {
    v1::CheckLimitRequest request = CheckOf("fleet", endpoint, user);
    request.set_mode(v1::MODE_PEEK);
    const Answer answer = fleet_.Check(request, fleet_.size() - 1);
    const v1::LimitStatus* status = StatusOf(answer, rule);
    return status ? static_cast<int>(status->remaining()) : -1;
  }

  bool HoldsNoKeys() {
    if (redis_) return redis_->Connect().Keys().empty();
    for (std::size_t i = 0; cluster_ && i < cluster_->size(); ++i) {
      if (!cluster_->node(i).Connect().Keys().empty()) return false;
    }
    return true;
  }

  // Waits for the expected value, because charges of denied checks may still have to be undone.
  void ExpectRemaining(int remaining, const std::string& rule, const std::string& endpoint,
                       const std::string& user = "") {
    constexpr std::chrono::seconds kTimeout(30);
    EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Remaining(rule, endpoint, user) == remaining; }))
        << rule << " " << user << ": " << Remaining(rule, endpoint, user) << " instead of "
        << remaining;
  }

  std::unique_ptr<RedisServer> redis_;
  RedisCluster* const cluster_;
  Fleet fleet_;
};

INSTANTIATE_TEST_SUITE_P(Topologies, FleetTest,
                         testing::Values(Topology{"RedisWithThreeServers", Kind::kRedis, 3},
                                         Topology{"ClusterWithThreeServers", Kind::kCluster, 3},
                                         Topology{"EmbeddedStore", Kind::kEmbedded, 1}),
                         [](const auto& param) { return param.param.name; });

v1::CheckLimitRequest WithCost(v1::CheckLimitRequest request, std::uint64_t cost) {
  request.set_cost(cost);
  return request;
}

TEST_P(FleetTest, FixedWindowAndSlidingLog_OneKey_AdmitExactlyTheirLimit) {
  for (const std::string rule : {"window", "log"}) {
    const Answers answers = RunAll([&](int) { return CheckOf("fleet", "/" + rule); });
    EXPECT_EQ(CountAllowed(answers), kLimit);
    EXPECT_EQ(Remaining(rule, "/" + rule), 0);
  }
}

TEST_P(FleetTest, FixedWindowAndSlidingLog_CostSeven_AdmitAsManyAsFit) {
  for (const std::string rule : {"window", "log"}) {
    const Answers answers = RunAll([&](int) { return WithCost(CheckOf("fleet", "/" + rule), 7); });
    EXPECT_EQ(CountAllowed(answers), kLimit / 7);
    EXPECT_EQ(Remaining(rule, "/" + rule), kLimit % 7);
  }
}

// Expects that no further check would have fit at the time of the store's last denial. Denials by
// the deny cache do not count, because their times are only estimates of the store's clock.
void ExpectBucketWasDrained(const Answers& answers, int cost) {
  Time first = answers.front().decided_at();
  Time last_denial{};
  for (const Answer& answer : answers) {
    first = std::min(first, answer.decided_at());
    if (answer.denied() && answer.of_store()) {
      last_denial = std::max(last_denial, answer.decided_at());
    }
  }
  const auto admitted = std::count_if(answers.begin(), answers.end(), [&](const Answer& answer) {
    return answer.allowed() && answer.decided_at() <= last_denial;
  });
  const double seconds = std::chrono::duration<double>(last_denial - first).count();
  const double available = kLimit + 100 * seconds;
  EXPECT_LE(admitted * cost, available);
  EXPECT_GE(admitted * cost, available - cost);
}

TEST_P(FleetTest, TokenBucket_OneKey_AdmitsBurstPlusRefill) {
  const Answers answers = RunAll([](int) { return CheckOf("fleet", "/bucket"); });
  ExpectBucketWasDrained(answers, 1);
}

TEST_P(FleetTest, TokenBucket_CostSeven_AdmitsBurstPlusRefill) {
  const Answers answers = RunAll([](int) { return WithCost(CheckOf("fleet", "/bucket"), 7); });
  ExpectBucketWasDrained(answers, 7);
}

TEST_P(FleetTest, PeekAndCostZero_UnderLoad_ChargeNothing) {
  const Answers answers = RunAll([](int index) {
    v1::CheckLimitRequest request = CheckOf("fleet", "/window");
    if (index % 2 == 0) {
      request.set_mode(v1::MODE_PEEK);
    } else {
      request.set_cost(0);
    }
    return request;
  });
  EXPECT_EQ(CountAllowed(answers), kChecks);
  EXPECT_EQ(Remaining("window", "/window"), kLimit);
  EXPECT_TRUE(HoldsNoKeys());
}

// Half of all checks come from user 0.
std::string GreedyUser(int index) {
  return "user" + std::to_string(index % 2 == 0 ? 0 : 1 + index / 2 % (kUsers - 1));
}

TEST_P(FleetTest, TwoRules_UserDenies_SiteIsNotCharged) {
  const Answers answers =
      RunAll([](int index) { return CheckOf("fleet", "/large-site", GreedyUser(index)); });
  EXPECT_EQ(CountAllowed(answers), kUsers * kUserBurst);
  ExpectRemaining(kLimit - kUsers * kUserBurst, "large-site", "/large-site");
}

TEST_P(FleetTest, TwoRules_SiteDenies_UsersAreNotCharged) {
  const Answers answers =
      RunAll([](int index) { return CheckOf("fleet", "/small-site", GreedyUser(index)); });
  std::map<std::string, int> granted;
  int denied_by_user = 0;
  int denied_by_site = 0;
  for (const Answer& answer : answers) {
    if (answer.allowed()) ++granted[GreedyUser(answer.index)];
    const auto* user = StatusOf(answer, "user");
    const auto* site = StatusOf(answer, "small-site");
    denied_by_user += user && !user->admitted();
    denied_by_site += site && !site->admitted();
  }
  EXPECT_GT(denied_by_user, 0);
  EXPECT_GT(denied_by_site, 0);
  constexpr int kSiteLimit = 3'000;
  const int allowed = CountAllowed(answers);
  EXPECT_LE(allowed, kSiteLimit);
  if (decides_at_once()) {
    EXPECT_EQ(allowed, kSiteLimit);
  }
  EXPECT_EQ(granted.size(), static_cast<std::size_t>(kUsers));
  ExpectRemaining(kSiteLimit - allowed, "small-site", "/small-site");
  for (const auto& [user, count] : granted) {
    // Uses /large-site, whose limit has units left. For /small-site, the server may remember a
    // denial, and then it does not ask the store.
    ExpectRemaining(kUserBurst - count, "user", "/large-site", user);
  }
}

// Moves the slots of all existing counters from node to node until `done()` is true. Returns
// the number of moves.
int MoveSlots(RedisCluster& cluster, const std::function<bool()>& done) {
  int moves = 0;
  for (std::size_t node = 0; !done(); node = (node + 1) % cluster.size()) {
    auto connection = cluster.node(node).Connect();
    for (const std::string& key : connection.Keys()) {
      const auto slot = connection.Integer({"CLUSTER", "KEYSLOT", key});
      if (done()) break;
      if (cluster.OwnerOf(static_cast<std::uint16_t>(slot)) != node) continue;
      cluster.Move(static_cast<std::uint16_t>(slot), (node + 1) % cluster.size());
      ++moves;
    }
  }
  return moves;
}

TEST(FleetOnClusterTest, SlotsMoveAtFullLoad_CountsAreExact) {
  RedisCluster cluster({.masters = 3});
  Fleet fleet({.rules = kRules, .servers = 3}, cluster.Url());
  std::atomic<bool> done = false;
  int moves = 0;
  Thread mover("mover", [&] { moves = MoveSlots(cluster, [&] { return done.load(); }); });
  const Answers sites = fleet.Run({.checks = kChecks, .request = [](int index) {
                                     return CheckOf("fleet", "/large-site", GreedyUser(index));
                                   }});
  const Answers windows =
      fleet.Run({.checks = kChecks, .request = [](int) { return CheckOf("fleet", "/window"); }});
  done = true;
  mover.Join();
  EXPECT_GT(moves, 10);
  EXPECT_EQ(CountFromStore(sites), kChecks);
  EXPECT_EQ(CountFromStore(windows), kChecks);
  EXPECT_EQ(CountAllowed(sites), kUsers * kUserBurst);
  EXPECT_EQ(CountAllowed(windows), kLimit);
}

}  // namespace
}  // namespace sluice::test
