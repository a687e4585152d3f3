// Redis fails under load. If it dies or hangs, the rules' policies answer in time until it is back.
// If it loses its scripts, it still counts each check once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/thread.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kServers = 2;
constexpr int kLocalLimit = 50;

constexpr char kRules[] = R"yaml(
domain: outage
rules:
  - name: allow
    match: {endpoint: /allow}
    on_store_failure: allow
    limits:
      - {algorithm: fixed_window, limit: 1000000, window: 1h}
  - name: deny
    match: {endpoint: /deny}
    on_store_failure: deny
    limits:
      - {algorithm: fixed_window, limit: 1000000, window: 1h}
  - name: error
    match: {endpoint: /error}
    on_store_failure: error
    limits:
      - {algorithm: fixed_window, limit: 1000000, window: 1h}
  - name: local
    match: {endpoint: /local}
    per: [user]
    on_store_failure: local
    deny_cache: false
    limits:
      - {algorithm: token_bucket, rate: 1/h, burst: 50}
)yaml";

constexpr const char* kEndpoints[] = {"/allow", "/deny", "/error", "/local"};

// Sends a thousand checks a second, with all policies, from construction to Stop.
class BackgroundLoad {
 public:
  explicit BackgroundLoad(Fleet& fleet)
      : thread_("load", [this, &fleet] { answers_ = fleet.Run(MakeLoad()); }) {}
  ~BackgroundLoad() { Stop(); }

  // Returns when `checks` more checks have been sent.
  void AwaitChecks(int checks) {
    const int target = sent_ + checks;
    EXPECT_TRUE(WaitUntil(seconds(20), [&] { return sent_ >= target; }));
  }

  const Answers& Stop() {
    stopped_ = true;
    thread_.Join();
    return answers_;
  }

 private:
  Load MakeLoad() {
    return {.callers = 8,
            .rate = 1'000,
            .request =
                [this](int index) {
                  ++sent_;
                  return CheckOf("outage", kEndpoints[index % 4], "load");
                },
            .go_on = [this] { return !stopped_; }};
  }

  std::atomic<int> sent_ = 0;
  std::atomic<bool> stopped_ = false;
  Answers answers_;
  Thread thread_;
};

class StoreFailureTest : public testing::Test {
 protected:
  // Returns true if Redis decides again for every server.
  bool Recovered() {
    v1::CheckLimitRequest peek = CheckOf("outage", "/local", "nobody");
    peek.set_mode(v1::MODE_PEEK);
    // Asks each server twice: after Redis has made a server's first decision, some decisions are
    // still local.
    for (int i = 0; i < 2 * fleet_.size(); ++i) {
      if (!fleet_.Check(peek, i % fleet_.size()).of_store()) return false;
    }
    return true;
  }

  // Runs `begin_outage`, then `end_outage`, under load. Expects that all answers come in time.
  // During the outage, they come from the policies. After it, at least 95 % come from Redis.
  void ExpectPoliciesHold(std::function<void()> begin_outage, std::function<void()> end_outage);

  RedisServer redis_;
  Fleet fleet_{{.rules = kRules, .servers = kServers, .store_timeout = StoreTimeout::kDefault},
               &redis_};
};

Answers Between(const Answers& answers, SteadyTime begin, SteadyTime end) {
  Answers within;
  std::copy_if(answers.begin(), answers.end(), std::back_inserter(within),
               [&](const Answer& a) { return a.sent >= begin && a.answered < end; });
  return within;
}

void ExpectAnsweredInTime(const Answers& answers) {
  std::vector<Duration> latencies;
  for (const Answer& answer : answers) {
    const bool may_fail = kEndpoints[answer.index % 4] == std::string_view("/error");
    EXPECT_TRUE(answer.status.ok() ||
                (may_fail && answer.status.error_code() == grpc::StatusCode::UNAVAILABLE))
        << answer.status.error_message();
    latencies.push_back(std::chrono::duration_cast<Duration>(answer.answered - answer.sent));
  }
  ASSERT_FALSE(latencies.empty());
  std::sort(latencies.begin(), latencies.end());
  EXPECT_LT(latencies[latencies.size() * 99 / 100], milliseconds(50));
  EXPECT_LT(latencies.back(), milliseconds(500));
}

void ExpectAnsweredByPolicy(const Answers& answers) {
  EXPECT_GT(answers.size(), 400u);
  int allowed_locally = 0;
  for (const Answer& answer : answers) {
    const std::string_view policy = kEndpoints[answer.index % 4];
    if (policy == "/error") {
      EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNAVAILABLE);
      continue;
    }
    EXPECT_EQ(answer.response.source(), v1::SOURCE_FALLBACK) << policy;
    if (policy == "/local") {
      allowed_locally += answer.allowed();
    } else {
      EXPECT_EQ(answer.allowed(), policy == "/allow");
    }
  }
  EXPECT_LE(allowed_locally, kServers * kLocalLimit);
}

void StoreFailureTest::ExpectPoliciesHold(std::function<void()> begin_outage,
                                          std::function<void()> end_outage) {
  ASSERT_TRUE(WaitUntil(seconds(30), [this] { return Recovered(); }));
  BackgroundLoad load(fleet_);
  load.AwaitChecks(300);
  begin_outage();
  const SteadyTime failed = SteadyNow();
  load.AwaitChecks(1'500);
  const SteadyTime repaired = SteadyNow();
  end_outage();
  EXPECT_TRUE(WaitUntil(seconds(30), [this] { return Recovered(); }));
  const SteadyTime recovered = SteadyNow();
  load.AwaitChecks(1'000);
  const Answers& answers = load.Stop();

  ExpectAnsweredInTime(answers);
  ExpectAnsweredByPolicy(Between(answers, failed, repaired));
  const Answers after = Between(answers, recovered, SteadyTime::max());
  EXPECT_GE(CountFromStore(after), static_cast<int>(after.size()) * 95 / 100);
}

TEST_F(StoreFailureTest, RedisKilledAndRestarted_PoliciesDecideUntilItIsBack) {
  ExpectPoliciesHold([this] { redis_.Kill(); }, [this] { redis_.Start(); });
}

TEST_F(StoreFailureTest, RedisHangs_PoliciesDecideUntilItIsBack) {
  ExpectPoliciesHold([this] { redis_.Pause(); }, [this] { redis_.Resume(); });
}

TEST_F(StoreFailureTest, LocalPolicy_RedisIsDown_LimitHoldsPerServer) {
  redis_.Kill();
  const Answers answers = fleet_.Run({.callers = 4, .checks = 1'000, .request = [](int) {
                                        return CheckOf("outage", "/local", "alone");
                                      }});
  EXPECT_EQ(CountFromStore(answers), 0);
  EXPECT_GE(CountAllowed(answers), kLocalLimit);
  EXPECT_LE(CountAllowed(answers), kServers * kLocalLimit);
}

TEST(StoreAbsentTest, RedisStartsAfterSluiced_DecidesWithoutARestart) {
  RedisServer redis;
  redis.Kill();
  Fleet fleet({.rules = kRules, .servers = 1, .store_timeout = StoreTimeout::kDefault}, &redis);
  const auto check = [&] { return fleet.Check(CheckOf("outage", "/deny")); };
  EXPECT_EQ(check().response.source(), v1::SOURCE_FALLBACK);
  EXPECT_TRUE(check().denied());
  redis.Start();
  EXPECT_TRUE(
      WaitUntil(seconds(30), [&] { return check().response.source() == v1::SOURCE_STORE; }));
  EXPECT_TRUE(check().allowed());
}

// Sends the check on a connection that is closed afterward.
v1::CheckLimitResponse CheckAt(const SluiceServer& sluiced, const v1::CheckLimitRequest& request) {
  const auto stub = v1::RateLimiter::NewStub(
      grpc::CreateChannel(sluiced.grpc_address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::CheckLimitResponse response;
  EXPECT_TRUE(stub->CheckLimit(&context, request, &response).ok());
  return response;
}

TEST(StoppedServerTest, UnitsOfAnOutage_AreChargedIfRedisIsBackWithinDrain) {
  RedisServer redis;
  constexpr int kAdmitted = 20;
  const v1::CheckLimitRequest check = CheckOf("outage", "/allow");
  for (const bool is_back : {false, true}) {
    SluiceServer sluiced({.rules = kRules,
                          .redis_url = redis.url(),
                          .flags = {"--drain", is_back ? "60s" : "10ms"}});
    redis.Kill();
    for (int i = 0; i < kAdmitted; ++i) {
      EXPECT_EQ(CheckAt(sluiced, check).source(), v1::SOURCE_FALLBACK);
    }
    sluiced.process().Signal(SIGTERM);
    EXPECT_TRUE(sluiced.process().WaitForLine("draining", seconds(10)));
    if (is_back) redis.Start();
    EXPECT_EQ(sluiced.process().Wait(seconds(30)), 0);
    EXPECT_EQ(sluiced.process().CountLines("20 units admitted without Redis are not charged"),
              is_back ? 0 : 1);
    if (!is_back) redis.Start();
  }
  const SluiceServer next({.rules = kRules, .redis_url = redis.url()});
  const v1::CheckLimitResponse response = CheckAt(next, check);
  ASSERT_EQ(response.limits_size(), 1);
  EXPECT_EQ(response.limits(0).remaining(), 1'000'000u - kAdmitted - 1);
}

// The clock of the server's machine is set 100 hours ahead. In 100 real hours, the bucket would
// become full again.
TEST(ServersClockTest, IsSetDuringAnOutage_LocalCountersDoNotChange) {
  const TempDir dir;
  const std::string clock = dir.path() / "clock";
  const auto set_clock = [&](Time to) {
    const std::int64_t micros = to.time_since_epoch().count();
    std::ofstream(clock, std::ios::in | std::ios::out)
        .write(reinterpret_cast<const char*>(&micros), sizeof micros);
  };
  dir.Write("clock", "");
  set_clock(Clock::System().Now());
  RedisServer redis;
  SluiceServer sluiced(
      {.rules = kRules,
       .redis_url = redis.url(),
       .flags = {"--fleet-share", "1"},
       .environment = {"LD_PRELOAD=" SHIFTED_CLOCK_PATH, "FROZEN_CLOCK_FILE=" + clock}});
  const auto is_denied = [&] {
    return CheckAt(sluiced, CheckOf("outage", "/local", "u")).decision() == v1::DECISION_DENIED;
  };
  redis.Kill();
  EXPECT_TRUE(WaitUntil(seconds(20), is_denied));
  set_clock(Clock::System().Now() + std::chrono::hours(100));
  EXPECT_TRUE(is_denied());
}

// If Redis does not have the script of a call, it runs nothing. The server then sends the call
// again, so no check is lost or counted twice.
TEST(ScriptFlushTest, UnderLoad_EachCheckIsCountedOnce) {
  constexpr int kChecks = 10'000;
  RedisServer redis;
  Fleet fleet({.rules = kRules, .servers = kServers}, &redis);
  RedisConnection connection = redis.Connect();
  std::atomic<bool> done = false;
  Answers answers;
  Thread load("load", [&] {
    answers = fleet.Run({.callers = 16, .checks = kChecks, .request = [](int) {
                           return CheckOf("outage", "/error");
                         }});
    done = true;
  });
  int flushes = 0;
  EXPECT_TRUE(WaitUntil(seconds(40), [&] {
    connection.Text({"SCRIPT", "FLUSH"});
    ++flushes;
    return done.load();
  }));
  load.Join();

  EXPECT_GT(flushes, 20);
  EXPECT_EQ(CountFromStore(answers), kChecks);
  EXPECT_EQ(CountAllowed(answers), kChecks);
  v1::CheckLimitRequest peek = CheckOf("outage", "/error");
  peek.set_mode(v1::MODE_PEEK);
  const Answer left = fleet.Check(peek);
  ASSERT_NE(StatusOf(left, "error"), nullptr);
  EXPECT_EQ(StatusOf(left, "error")->remaining(), 1'000'000u - kChecks);
}

}  // namespace
}  // namespace sluice::test
