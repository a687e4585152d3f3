// Keys in Redis expire: every key has a TTL, and no key lives much longer than its counter needs.
#include <gtest/gtest.h>

#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

// No counter here needs its key for more than two seconds.
constexpr std::chrono::milliseconds kLongestState(2'000);
// A TTL may exceed kLongestState by at most this time: one second, plus less than one second for
// rounding up, plus ten seconds if the counter is charged again.
constexpr std::chrono::milliseconds kGrace(12'000);

constexpr char kRules[] = R"yaml(
domain: brief
rules:
  - name: window
    match: {endpoint: [/window, /both]}
    per: [user]
    limits:
      - {algorithm: fixed_window, limit: 3, window: 1s}
      - {algorithm: fixed_window, limit: 5, window: 2s, align: clock}
  - name: bucket
    match: {endpoint: [/bucket, /both]}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 2/s, burst: 4}
)yaml";

v1::CheckLimitRequest AnyCheck(int index) {
  constexpr const char* kEndpoints[] = {"/window", "/bucket", "/both"};
  return CheckOf("brief", kEndpoints[index % 3], "user" + std::to_string(index % 300));
}

TEST(KeyLifetimeTest, AfterALoad_EveryKeyExpiresSoon) {
  RedisServer redis;
  Fleet fleet({.rules = kRules}, &redis);
  const Answers answers = fleet.Run({.callers = 16, .checks = 5'000, .request = AnyCheck});
  EXPECT_EQ(CountFromStore(answers), 5'000) << FirstNotFromStore(answers);

  RedisConnection connection = redis.Connect();
  const std::vector<std::string> keys = connection.Keys();
  EXPECT_FALSE(keys.empty());
  for (const std::string& key : keys) {
    EXPECT_TRUE(key.starts_with("sluice:{brief/")) << key;
    const std::int64_t ttl = connection.Integer({"PTTL", key});
    EXPECT_NE(ttl, -1) << key << " has no TTL";
    EXPECT_LE(ttl, (kLongestState + kGrace).count()) << key;
  }
}

}  // namespace
}  // namespace sluice::test
