// The metrics about Redis.
#include "store/redis/redis_metrics.h"

#include <gtest/gtest.h>

#include <string>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/redis_server.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class RedisMetricsTest : public testing::Test {
 protected:
  // The value of `series` (name and labels) on the page, or -1 if the page does not have it.
  double Value(const std::string& series) const {
    const std::string page = "\n" + metrics_.Render();
    const std::size_t line = page.find("\n" + series + " ");
    return line == std::string::npos ? -1 : std::stod(page.substr(line + series.size() + 2));
  }
  double Errors(const std::string& kind) const {
    return Value("sluice_redis_errors_total{kind=\"" + kind + "\"}");
  }
  double Connected() const { return Value("sluice_redis_connected{loop=\"io-0\"}"); }
  double Waiting() const { return Value("sluice_redis_waiting_checks{loop=\"io-0\"}"); }

  // With a long timeout, no answer is late. A late answer would open the breaker, whose probe would
  // be counted as a call.
  RedisStore::Options Options() {
    return {.timeout = minutes(1), .silence = minutes(1), .metrics = &metrics_};
  }

  static BlockingCheck Check(const std::string& key = "k") {
    return BlockingCheck({{key, FixedWindow{.limit = 10, .window = seconds(30)}}});
  }

  MetricsRegistry metrics_;
};

TEST_F(RedisMetricsTest, ErrorWord_NotInTheList_CountsAsOther) {
  redis::RedisMetrics metrics(metrics_, MetricLabels{{"loop", "io-0"}});
  metrics.CountError("OOM command not allowed when used memory > 'maxmemory'.");
  metrics.CountError("@user_script: 84: -OOM command not allowed, says Redis 6");
  metrics.CountError("READONLY");
  metrics.CountError("EVIL1 made up");
  metrics.CountError("@");
  metrics.CountError("");
  EXPECT_EQ(Errors("OOM"), 2);
  EXPECT_EQ(Errors("READONLY"), 1);
  EXPECT_EQ(Errors("other"), 3);
  EXPECT_EQ(Errors("BUSY"), 0);
  EXPECT_EQ(Errors("EVIL1"), -1);
}

TEST_F(RedisMetricsTest, RedisDisappearsAndReturns_IsShown) {
  RedisServer server;
  RedisStore store(Io(), RedisUrl::Parse(server.url()).value(), Options());
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  EXPECT_EQ(Connected(), 1);
  EXPECT_EQ(Errors("lost"), 0);
  server.Kill();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return Connected() == 0 && Errors("connect") > 0; }));
  EXPECT_EQ(Errors("lost"), 1);
  EXPECT_EQ(Value("sluice_redis_reconnects_total"), 0);
  server.Start();
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return Connected() == 1; }));
  EXPECT_EQ(Value("sluice_redis_reconnects_total"), 1);
}

TEST_F(RedisMetricsTest, RedisHangs_WaitingChecksAreShown) {
  RedisServer server;
  RedisStore store(Io(), RedisUrl::Parse(server.url()).value(), Options());
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  BlockingCheck first = Check("a"), second = Check("b"), third = Check("c");
  server.Pause();
  for (BlockingCheck* check : {&first, &second, &third}) check->Start(store);
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return Waiting() == 3; }));
  server.Resume();
  for (BlockingCheck* check : {&first, &second, &third}) EXPECT_FALSE(check->Wait().failure());
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return Waiting() == 0; }));
  const double calls = Value("sluice_redis_script_calls_total");
  EXPECT_GE(calls, 1);
  EXPECT_LE(calls, 3);
}

TEST_F(RedisMetricsTest, ErrorReplies_AreCountedByTheirWord) {
  RedisServer server({.arguments = {"--maxmemory", "1", "--maxmemory-policy", "noeviction"}});
  RedisStore store(Io(), RedisUrl::Parse(server.url()).value(), Options());
  ASSERT_TRUE(store.WaitUntilReady(seconds(10)));
  BlockingCheck full = Check();
  EXPECT_EQ(full.RunOn(store).failure(), StoreFailure::kRejected);
  EXPECT_EQ(Errors("OOM"), 1);
  auto redis = server.Connect();
  redis.Text({"CONFIG", "SET", "maxmemory", "0"});
  redis.Text({"SCRIPT", "FLUSH"});
  EXPECT_FALSE(full.RunOn(store).failure());
  EXPECT_EQ(Errors("NOSCRIPT"), 1);
}

}  // namespace
}  // namespace sluice::test
