// A rolling upgrade: servers of two versions, whose scripts differ, use one Redis.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/store/blocking_check.h"
#include "tests/store/script_runner.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

bool Admits(ScriptRunner& runner, const StoreCheck& check) {
  redis::ScriptCall call;
  call.Add(check, 1);
  auto reply = redis::ScriptReply::Open(runner.Run(call));
  redis::EntryReply run;
  EXPECT_TRUE(reply) << runner.error();
  EXPECT_TRUE(reply->Next(check, 1, run));
  EXPECT_EQ(run.error, "");
  return run.granted == 1;
}

TEST(ScriptVersion, TwoScriptsOnOneRedis_ShareEveryCounter) {
  RedisServer server;
  ScriptRunner old_servers(server.socket_path(), redis::kCheckScript.text);
  ScriptRunner new_servers(server.socket_path(),
                           std::string(redis::kCheckScript.text) + "-- of the next version\n");
  const Limit limits[] = {FixedWindow{.limit = 10, .window = seconds(60)},
                          SlidingLog{.limit = 10, .window = seconds(60)},
                          TokenBucket{.rate = 1, .period = seconds(60), .burst = 10}};
  for (const Limit& limit : limits) {
    const BlockingCheck check({{"sluice:{t/r/}:" + CounterTag(limit), limit}});
    int admitted = 0;
    for (int i = 0; i < 20; ++i) admitted += Admits(i % 2 == 0 ? old_servers : new_servers, check);
    EXPECT_EQ(admitted, 10) << CounterTag(limit);
  }
}

TEST(ScriptVersion, CallOfAnotherFormat_IsRefusedAndWritesNothing) {
  RedisServer server;
  ScriptRunner runner(server.socket_path(), redis::kCheckScript.text);
  const BlockingCheck check({{"k", FixedWindow{.limit = 10, .window = seconds(60)}}});
  redis::ScriptCall call;
  call.Add(check, 1);
  const auto arguments = call.Arguments();
  std::string blob(arguments.back());
  double version = 0;
  std::memcpy(&version, blob.data(), sizeof version);
  const double next_version = version + 1;
  std::memcpy(blob.data(), &next_version, sizeof next_version);
  std::vector<std::string_view> changed(arguments.begin(), arguments.end());
  changed.back() = blob;
  EXPECT_TRUE(runner.Run(changed).empty());
  EXPECT_THAT(runner.error(), testing::HasSubstr("different versions"));
  EXPECT_TRUE(server.Connect().Keys().empty());
}

}  // namespace
}  // namespace sluice::test
