// Errors in a Redis Cluster whose slots move or have no owner.
#include "store/redis/slot.h"
#include "tests/store/redis_errors_test.h"
#include "tests/support/redis_cluster.h"

namespace sluice::test {
namespace {

// Started on first use, and shared by the tests.
RedisCluster& Two() {
  static RedisCluster cluster({.masters = 2});
  return cluster;
}

// The slot of the counter that Check uses.
const std::uint16_t kSlot = redis::SlotOf("a");
// The node that does not own this slot.
std::size_t Elsewhere() { return 1 - Two().OwnerOf(kSlot); }

TEST_F(RedisErrors, MOVED_SlotIsOnAnotherNode) {
  ConnectAndWait(Two().Url());
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    Two().Move(kSlot, Elsewhere());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Check(i % 2), std::nullopt);
    return Count("MOVED") > 1;
  }));
  store_.reset();
  EXPECT_LE(log_.CountLines("MOVED"), 2) << "one for each node\n" << log_.text();
  EXPECT_GE(log_.CountLines(RowsOfTheManual()["MOVED"].log), 1) << log_.text();
}

TEST_F(RedisErrors, ASK_SlotMigrates) {
  ConnectAndWait(Two().Url());
  EXPECT_EQ(Check(), std::nullopt);
  const std::size_t to = Elsewhere();
  Two().BeginMove(kSlot, to);
  while (Two().MoveKeys(kSlot, to) > 0) {
  }
  CheckOften(std::nullopt);
  Two().FinishMove(kSlot, to);
  ExpectAsInTheManual("ASK");
}

TEST_F(RedisErrors, TRYAGAIN_KeysAreOnTwoNodes) {
  ConnectAndWait(Two().Url());
  const std::vector<CounterSpec> pair{{"sluice:{a}:k", kMany}, {"sluice:{a}:l", kMany}};
  EXPECT_FALSE(BlockingCheck(pair).RunOn(*store_, threads_.loop(0)).failure());
  const std::size_t to = Elsewhere();
  Two().BeginMove(kSlot, to);
  EXPECT_EQ(Two().MoveKeys(kSlot, to, 1), 1u);
  BlockingCheck waits(pair);
  waits.deadline = SteadyNow() + kTimeout;
  waits.Start(*store_, threads_.loop(0));
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Count("TRYAGAIN") > 3; }));
  while (Two().MoveKeys(kSlot, to) > 0) {
  }
  EXPECT_FALSE(waits.Wait().failure());
  Two().FinishMove(kSlot, to);
  ExpectAsInTheManual("TRYAGAIN");
}

// The checks' slot keeps its owner, which gets the checks and replies with the error.
TEST_F(RedisErrors, CLUSTERDOWN_AnotherSlotHasNoOwner) {
  const std::string other = std::to_string(redis::SlotOf("other"));
  auto owner = Two().node(Two().OwnerOf(redis::SlotOf("other"))).Connect();
  auto asked = Two().node(Two().OwnerOf(kSlot)).Connect();
  ConnectAndWait(Two().Url());
  for (RedisConnection* node : {&owner, &asked}) node->ErrorOf({"CLUSTER", "DELSLOTS", other});
  CheckUntilCounted("CLUSTERDOWN");
  CheckOften(StoreFailure::kRejected);
  owner.Text({"CLUSTER", "ADDSLOTS", other});
  Two().AwaitAllSlotsServed();
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return !Check(0) && !Check(1); }));
  ExpectAsInTheManual("CLUSTERDOWN");
}

// The slot map names no owner, so the checks are not sent.
TEST_F(RedisErrors, CLUSTERDOWN_SlotOfTheChecksHasNoOwner) {
  const std::string slot = std::to_string(kSlot);
  const std::size_t place = Two().OwnerOf(kSlot);
  auto owner = Two().node(place).Connect();
  auto other = Two().node(1 - place).Connect();
  ConnectAndWait(Two().Url());
  for (RedisConnection* node : {&owner, &other}) node->ErrorOf({"CLUSTER", "DELSLOTS", slot});
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    return Check(0) == StoreFailure::kUnreachable && Check(1) == StoreFailure::kUnreachable;
  }));
  const double before = Count("CLUSTERDOWN");
  CheckOften(StoreFailure::kUnreachable);
  EXPECT_EQ(Count("CLUSTERDOWN"), before + 4);
  owner.Text({"CLUSTER", "ADDSLOTS", slot});
  Two().AwaitAllSlotsServed();
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return !Check(0) && !Check(1); }));
  store_.reset();
  EXPECT_EQ(log_.CountLines("no owner in the slot map; slots have no master"), 1) << log_.text();
}

// redis.url names a node of a cluster in the form for a single server.
TEST_F(RedisErrors, MOVED_UrlHasTheFormForASingleServer) {
  ConnectAndWait(Two().node(Elsewhere()).url());
  CheckOften(StoreFailure::kRejected);
  store_.reset();
  EXPECT_GT(Count("MOVED"), 0);
  EXPECT_EQ(log_.CountLines("redis.url must begin with redis+cluster"), 1) << log_.text();
}

}  // namespace
}  // namespace sluice::test
