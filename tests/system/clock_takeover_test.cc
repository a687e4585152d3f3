// A failover to a Redis whose clock differs by an hour: the replica takes over the primary's
// address and counters. If the replica's clock is behind, no counter admits more than its limit,
// and none is blocked for much longer than its window. If the replica's clock is ahead, the
// counters admit as much as new ones.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/require.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kWindow = seconds(4);
constexpr int kLimit = 5;

// Each limit admits five units. Four seconds later, all five are free again.
const std::map<std::string, std::string> kLimits{
    {"first", "{algorithm: fixed_window, limit: 5, window: 4s}"},
    {"clock", "{algorithm: fixed_window, limit: 5, window: 4s, align: clock}"},
    {"log", "{algorithm: sliding_log, limit: 5, window: 4s}"},
    {"window", "{algorithm: sliding_window, limit: 5, window: 4s, segments: 40}"},
    {"token", "{algorithm: token_bucket, rate: 75/m, burst: 5}"},
    {"leaky", "{algorithm: leaky_bucket, rate: 75/m, queue: 4, delay: false}"},
    {"slots", "{algorithm: concurrency, limit: 5, ttl: 4s}"},
};

std::string Rules() {
  std::string rules = "domain: takeover\nrules:\n";
  for (const auto& [name, limit] : kLimits) {
    rules += fmt::format(
        "  - name: {0}\n    match: {{endpoint: /{0}}}\n    on_store_failure: error\n"
        "    deny_cache: false\n    limits: [{1}]\n",
        name, limit);
  }
  return rules;
}

class TakeoverTest : public testing::Test {
 protected:
  // A primary whose clock is `ahead` seconds ahead, and its replica.
  void StartPair(int ahead) {
    primary_.emplace(
        RedisServer::Options{.tcp = true,
                             .arguments = {"--repl-diskless-sync-delay", "0"},
                             .environment = {"LD_PRELOAD=" SHIFTED_CLOCK_PATH,
                                             fmt::format("SLUICE_CLOCK_SHIFT={}", ahead)}});
    replica_.emplace(RedisServer::Options{.tcp = true});
    const std::string address = primary_->tcp_address();
    const auto colon = address.find(':');
    auto replica = replica_->Connect();
    replica.Text({"REPLICAOF", address.substr(0, colon), address.substr(colon + 1)});
    ASSERT_TRUE(WaitUntil(seconds(20), [&] {
      return replica.Text({"INFO", "replication"}).find("master_link_status:up") !=
             std::string::npos;
    }));
    fleet_.emplace(Fleet::Options{.rules = Rules(), .servers = 2}, &*primary_);
  }

  // For each rule, sends `tries` checks. Returns how many were admitted.
  std::map<std::string, int> Admitted(int tries) {
    std::map<std::string, int> admitted;
    for (const auto& [name, limit] : kLimits) {
      for (int i = 0; i < tries; ++i) {
        const Answer answer = fleet_->Check(CheckOf("takeover", "/" + name), i % fleet_->size());
        EXPECT_TRUE(answer.status.ok()) << name << ": " << answer.status.error_message();
        admitted[name] += answer.allowed();
      }
    }
    return admitted;
  }

  // The replica becomes the primary, at the old primary's address, with everything that the old
  // primary has written.
  void TakeOver() {
    // WAIT covers only writes of its own connection.
    auto primary = primary_->Connect();
    primary.Text({"SET", "the last write", ""});
    Require(primary.Integer({"WAIT", "1", "10000"}) == 1, "the replica lags");
    primary_->Kill();
    replica_->Connect().Text({"REPLICAOF", "NO", "ONE"});
    std::filesystem::rename(replica_->socket_path(), primary_->socket_path());
    auto peek = CheckOf("takeover", "/first");
    peek.set_mode(v1::MODE_PEEK);
    ASSERT_TRUE(WaitUntil(seconds(20), [&] {
      for (int i = 0; i < fleet_->size(); ++i) {
        if (!fleet_->Check(peek, i).status.ok()) return false;
      }
      return true;
    }));
  }

  std::optional<RedisServer> primary_;
  std::optional<RedisServer> replica_;
  std::optional<Fleet> fleet_;
};

TEST_F(TakeoverTest, ClockAnHourBehind_AddsNoUnitsAndBlocksNoCounterForLong) {
  StartPair(3600);
  const auto sound = Admitted(2 * kLimit);
  for (const auto& [name, admitted] : sound) EXPECT_GE(admitted, kLimit) << name;
  TakeOver();
  const SteadyTime taken_over = SteadyNow();
  const auto at_once = Admitted(2 * kLimit);
  const auto took = SteadyNow() - taken_over;
  for (const auto& [name, admitted] : at_once) {
    // Buckets refill during the checks, and an aligned window may end. Apart from that, nothing may
    // be admitted.
    const int dripped = static_cast<int>(took / (kWindow / kLimit)) + 1;
    const bool drips = name == "token" || name == "leaky";
    const int most = name == "clock" ? kLimit : drips ? dripped : 0;
    EXPECT_LE(admitted, most) << name << ": the clock's step back has added units";
  }
  std::map<std::string, std::chrono::duration<double>> opened;
  EXPECT_TRUE(WaitUntil(2 * kWindow, [&] {
    for (const auto& [name, limit] : kLimits) {
      if (opened.contains(name)) continue;
      auto peek = CheckOf("takeover", "/" + name);
      peek.set_mode(v1::MODE_PEEK);
      if (fleet_->Check(peek).allowed()) opened[name] = SteadyNow() - taken_over;
    }
    return opened.size() == kLimits.size();
  })) << "the clock's step back has blocked a counter";
  // A sliding window may admit the next check one segment too late.
  for (const auto& [name, after] : opened) EXPECT_LE(after, kWindow + milliseconds(600)) << name;
}

TEST_F(TakeoverTest, ClockAnHourAhead_CountersAdmitAsMuchAsNewOnes) {
  StartPair(-3600);
  for (const auto& [name, admitted] : Admitted(2 * kLimit)) EXPECT_GE(admitted, kLimit) << name;
  TakeOver();
  for (const auto& [name, admitted] : Admitted(2 * kLimit)) {
    EXPECT_GE(admitted, kLimit) << name << " is still blocked";
    EXPECT_LE(admitted, 2 * kLimit - 1) << name << " admits more than a new counter";
  }
}

}  // namespace
}  // namespace sluice::test
