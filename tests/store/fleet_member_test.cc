// How servers learn the size of their fleet from a real Redis.
#include "store/redis/fleet_member.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "store/redis/redis_store.h"
#include "tests/support/captured_log.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using redis::FleetView;
using std::chrono::seconds;

// A server of the fleet, and its latest view of the fleet.
class Member {
 public:
  explicit Member(const RedisServer& redis) {
    threads_.Start();
    store_ = std::make_unique<RedisStore>(threads_, RedisUrl::Parse(redis.url()).value(),
                                          RedisStore::Options{});
    store_->JoinFleet([this](const FleetView& view) {
      const MutexLock lock(mutex_);
      view_ = view;
    });
  }
  ~Member() { store_->Stop(); }

  FleetView view() const {
    const MutexLock lock(mutex_);
    return view_;
  }
  bool Sees(std::int64_t servers) const {
    return WaitUntil(seconds(20), [&] { return view().connected && view().servers == servers; });
  }

 private:
  mutable Mutex mutex_;
  FleetView view_ SLUICE_GUARDED_BY(mutex_);
  net::IoThreads threads_{1};
  std::unique_ptr<RedisStore> store_;
};

TEST(FleetMember, Members_CountEachOther_HaveDifferentRanks) {
  const RedisServer redis;
  std::vector<std::unique_ptr<Member>> fleet;
  for (int i = 0; i < 3; ++i) fleet.push_back(std::make_unique<Member>(redis));
  const auto agreed = [&] {
    std::int64_t ranks = 0;
    for (const auto& member : fleet) {
      if (member->view().servers != 3) return false;
      ranks |= std::int64_t{1} << member->view().rank;
    }
    return ranks == 0b111;
  };
  EXPECT_TRUE(WaitUntil(seconds(10), agreed));
}

// A server that has left may return during an outage. If it were not counted, the other servers
// would then take too large shares of the limits.
TEST(FleetMember, MemberLeaves_IsStillCounted) {
  const RedisServer redis;
  const Member stays(redis);
  auto leaves = std::make_unique<Member>(redis);
  ASSERT_TRUE(stays.Sees(2));
  leaves.reset();
  RedisConnection connection = redis.Connect();
  const auto is_gone = [&] {
    return connection.Integer({"ZCARD", std::string(redis::FleetMember::kKey)}) == 1;
  };
  EXPECT_TRUE(WaitUntil(seconds(30), is_gone)) << "silent for five seconds";
  EXPECT_EQ(stays.view().servers, 2);
}

// If Redis' clock steps back, earlier reports are in the future. Entries that are only a few
// seconds ahead are kept, since the clocks of two Redis nodes may differ.
TEST(FleetMember, EntriesFarInTheFuture_AreDropped) {
  const RedisServer redis;
  const std::string key(redis::FleetMember::kKey);
  RedisConnection connection = redis.Connect();
  const auto report_in = [&](seconds time, const std::string& name) {
    const auto at = Clock::System().Now().time_since_epoch() + time;
    const auto score = std::chrono::duration_cast<std::chrono::milliseconds>(at).count();
    connection.Integer({"ZADD", key, std::to_string(score), name});
  };
  report_in(std::chrono::hours(1), "dead");
  report_in(seconds(3), "ahead");
  const Member member(redis);
  EXPECT_TRUE(member.Sees(2));
  EXPECT_EQ(connection.Integer({"ZCARD", key}), 2);
  EXPECT_EQ(connection.Integer({"ZREM", key, "dead"}), 0);
}

TEST(FleetMember, RedisComesBackEmpty_NumberOfServersIsNotForgotten) {
  RedisServer redis;
  const Member first(redis);
  auto second = std::make_unique<Member>(redis);
  ASSERT_TRUE(first.Sees(2));
  redis.Kill();
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return !first.view().connected; }));
  EXPECT_EQ(first.view().servers, 2);
  second.reset();
  redis.Start();
  EXPECT_TRUE(first.Sees(2));
}

TEST(FleetMember, RedisHangs_IsLost_AndFoundAgain) {
  RedisServer redis;
  const Member member(redis);
  ASSERT_TRUE(member.Sees(1));
  redis.Pause();
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return !member.view().connected; }));
  redis.Resume();
  EXPECT_TRUE(member.Sees(1));
}

// Redis answers, so checks can be decided there.
TEST(FleetMember, ReportsAreRefused_RedisIsNotLost_NoNumberIsKnown) {
  CapturedLog log;
  {
    const RedisServer redis;
    redis.Connect().Text({"SET", std::string(redis::FleetMember::kKey), "foreign data"});
    const Member member(redis);
    EXPECT_TRUE(WaitUntil(seconds(20), [&] { return member.view().connected; }));
    EXPECT_EQ(member.view().servers, 0);
    EXPECT_FALSE(member.view().accepted);
    redis.Connect().Integer({"DEL", std::string(redis::FleetMember::kKey)});
    EXPECT_TRUE(member.Sees(1));
    EXPECT_TRUE(member.view().accepted);
  }
  EXPECT_EQ(log.CountLines("answers this server's reports with an error: WRONGTYPE"), 1)
      << log.text();
}

TEST(FleetMember, RedisNeverReached_NoNumberIsKnown) {
  RedisServer redis;
  redis.Kill();
  const Member member(redis);
  EXPECT_FALSE(
      WaitUntil(std::chrono::milliseconds(100), [&] { return member.view().servers > 0; }));
  redis.Start();
  EXPECT_TRUE(member.Sees(1));
}

}  // namespace
}  // namespace sluice::test
