// Compares Lua with C++. The script in a real Redis and the embedded store decide the same random
// checks: alone, packed and coalesced, by rules that change, with a jumping clock. Any difference
// is a bug in one of them. SLUICE_DIFFERENTIAL_OPERATIONS sets the number of checks (default
// 100,000). SLUICE_DIFFERENTIAL_SEED, the seed of an earlier run, repeats the checks of that run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "store/memory/memory_store.h"
#include "store/redis/script_call.h"
#include "tests/store/random_operations.h"
#include "tests/store/script_runner.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::days;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string DescribeGrants(const CounterCheck& counter) {
  const auto number = [](Time time) { return time.time_since_epoch().count(); };
  const GrantsOut& out = counter.grants_out;
  return fmt::format(" granted {} until {} for {}; out {} until {}, {} until {}",
                     counter.grant.units, number(counter.grant.generation),
                     counter.grant.life.count(), out.older, number(out.older_ends), out.newer,
                     number(out.newer_ends));
}

std::string Describe(const StoreCheck& check) {
  std::string text =
      fmt::format("mode {} admitted {}", static_cast<int>(check.demand.mode), check.admitted);
  for (const CounterCheck& counter : check.counters) {
    const Verdict& verdict = counter.verdict;
    text += fmt::format(
        "\n  {} group {} units {}: admitted {} limit {} remaining {} reset {} retry {} wait {} "
        "dropped {}",
        counter.key, counter.group, counter.units, verdict.admitted, verdict.limit,
        verdict.remaining, verdict.reset_after.count(), verdict.retry_after.count(),
        verdict.wait.count(), verdict.dropped);
    const auto before = FieldsOf(counter.before);
    if (counter.failure) text += " failed";
    if (check.leases_units) text += fmt::format(" held {}", counter.held);
    if (counter.charged) text += fmt::format(" met {:.0f} {:.0f}", before[0], before[1]);
    if (std::holds_alternative<TokenBucket>(*counter.limit)) {
      text += fmt::format(" out {:.0f}", before[2]);
    }
    if (check.concerns_grants) text += DescribeGrants(counter);
  }
  if (check.leases_units) {
    text += fmt::format("\n  lease: {} until {}", static_cast<int>(check.settled),
                        check.lease_ends.time_since_epoch().count());
  }
  return text;
}

// Decides the operation n times, one after another, in the embedded store, and compares each answer
// with the script's. The script's one reply has all n answers. Returns whether all are equal.
bool Agree(const Operation& operation, const redis::EntryReply& reply, MemoryStore& store,
           RandomOperations& random) {
  for (std::int64_t i = 0; i < operation.n; ++i) {
    BlockingCheck& check = operation.check->RunHere(store);
    const std::string cpp = Describe(check);
    reply.Answer(check, i);
    const std::string lua = Describe(check);
    if (i == operation.n / 2) random.RememberGrant(check);
    if (check.concerns_grants) random.RememberPrefetched(check);
    if (cpp != lua) {
      ADD_FAILURE() << "at " << i << " of " << operation.n << "\nC++: " << cpp << "\nLua: " << lua;
      return false;
    }
  }
  return true;
}

// A counter's key must live as long as the counter's state matters to the check's limit: until the
// state equals that of a new counter. Fixed windows are left out, since windows aligned to the
// clock end even if nothing is counted in them.
void ExpectKeysLive(const StoreCheck& check, ScriptRunner& runner) {
  for (const CounterCheck& counter : check.counters) {
    if (std::holds_alternative<FixedWindow>(*counter.limit)) continue;
    const Time matters = check.decided_at + counter.verdict.reset_after;
    const Time expiry = runner.ExpiryOf(counter.key);
    const bool is_new = expiry == Time();
    EXPECT_TRUE(is_new || expiry + milliseconds(1) > matters)
        << std::string_view(counter.key) << ": " << (matters - expiry).count() << " µs too early\n"
        << Describe(check);
  }
}

// Replaces every `text` in the script; there must be at least one.
std::string Replaced(std::string script, std::string_view text, std::string_view with) {
  auto at = script.find(text);
  EXPECT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = script.find(text, at + with.size())) {
    script.replace(at, text.size(), with);
  }
  return script;
}

// The check script, except that its keys outlive the test. Redis expires keys by real time, but the
// test's clock may step back to a time at which the counter still matters.
std::string ScriptWithLongLivedKeys() {
  const std::string script(redis::kCheckScript.text);
  return Replaced(script, "/ 1000000) + 1\n", "/ 1000000) + 1000000\n");
}

// The check script, except that its reply ends with a string of one digit for each key: 1 if the
// key existed before the call, 0 if not.
std::string ScriptThatTellsWhatExists() {
  return fmt::format(R"(
local exist = {{}}
for k = 1, #KEYS do exist[k] = redis.call('EXISTS', KEYS[k]) end
local reply = (function()
{}
end)()
reply = type(reply) == 'string' and {{ reply }} or reply
reply[#reply + 1] = table.concat(exist)
return reply)",
                     redis::kCheckScript.text);
}

// The clock whose time the checks use.
enum class TimeOf { kTest, kRedis };

// Runs random checks on both sides. Only if a key expires does the embedded store drop its counter,
// too: rules change, so a counter that has expired by one rule might still matter to the next.
class Comparison {
 public:
  Comparison(TimeOf time_of, std::uint32_t seed) : time_of_(time_of), random_(seed) {}

  // Stops at the first difference.
  void Run(int operations) {
    while (done_ < operations) {
      ASSERT_NO_FATAL_FAILURE(RunPack()) << "after " << done_ << " operations";
    }
    // The run is useful only if both outcomes are common.
    EXPECT_GT(granted_, operations / 10);
    EXPECT_GT(done_ - granted_, operations / 10);
    if (time_of_ == TimeOf::kTest) {
      EXPECT_GT(alone_, operations / 40);
    }
    EXPECT_GT(settled_, operations / 100);
    EXPECT_GT(prefetched_, operations / 1500);
    fmt::print(
        "{} operations agree, {} of them granted, {} decided by the fast path, {} leases settled, "
        "{} counters prefetched\n",
        done_, granted_, alone_, settled_, prefetched_);
  }

 private:
  void RunPack() {
    // Doubles are exact for microseconds only up to the year 2255. Random steps would soon reach
    // that year.
    constexpr Time kEnd(days(50'000));
    const Time before = clock_.Now();
    if (time_of_ == TimeOf::kTest) clock_.Advance(random_.RandomStep());
    if (clock_.Now() > kEnd) clock_.Set(kBegin);
    if (clock_.Now() < before) random_.ForgetLeasesOfUnits();
    std::vector<Operation> pack(random_.random().OneIn(4) ? 1 + random_.random().Below(5) : 1);
    call_.Clear();
    for (Operation& operation : pack) {
      operation = random_.RandomOperation(clock_.Now());
      call_.Add(*operation.check, operation.n);
    }
    const auto arguments = call_.Arguments(true, time_of_ == TimeOf::kTest ? clock_.Now() : Time());
    const auto elements = runner_.Run(arguments);
    ASSERT_FALSE(elements.empty()) << runner_.error();
    alone_ += runner_.took_short_way() ? 1 : 0;
    if (time_of_ == TimeOf::kRedis) DropExpired(arguments, elements.back());
    auto reply = redis::ScriptReply::Open(elements);
    ASSERT_TRUE(reply) << reply.error().message;
    clock_.Set(reply->now());
    for (const Operation& operation : pack) ASSERT_NO_FATAL_FAILURE(Compare(operation, *reply));
    if (time_of_ == TimeOf::kRedis) ExpectKeysLive(*pack.back().check, runner_);
    ASSERT_FALSE(testing::Test::HasFailure());
  }

  void DropExpired(std::span<const std::string_view> arguments, std::string_view exist) {
    for (std::size_t k = 0; k < exist.size(); ++k) {
      if (exist[k] == '1') continue;
      BlockingReset reset({arguments[1 + k]});
      memory_.Reset(reset);
    }
  }

  void Compare(const Operation& operation, redis::ScriptReply& reply) {
    ASSERT_TRUE(reply.Next(*operation.check, operation.n, entry_));
    ASSERT_EQ(entry_.error, "");
    ASSERT_TRUE(Agree(operation, entry_, memory_, random_));
    for (const CounterCheck& counter : operation.check->counters) {
      random_.Remember(counter.verdict.retry_after);
      random_.Remember(counter.verdict.reset_after);
    }
    const Mode mode = operation.check->demand.mode;
    const bool enters = operation.check->leases_units && mode == Mode::kCharge;
    settled_ += operation.check->settled == Settled::kSettled && mode == Mode::kSettle ? 1 : 0;
    if (operation.check->lease && (mode == Mode::kConsume || enters)) {
      random_.RememberLease(*operation.check);
    }
    granted_ += entry_.granted > 0 ? 1 : 0;
    for (const auto& counter : entry_.counters) prefetched_ += counter.grant.units > 0 ? 1 : 0;
    ++done_;
  }

  static constexpr Time kBegin{days(20'000)};

  const TimeOf time_of_;
  RandomOperations random_;
  RedisServer server_;
  ScriptRunner runner_{server_.socket_path(), time_of_ == TimeOf::kTest
                                                  ? ScriptWithLongLivedKeys()
                                                  : ScriptThatTellsWhatExists()};
  ManualClock clock_{kBegin};
  MemoryStore memory_{clock_, {.forgets = false}};
  redis::ScriptCall call_;
  redis::EntryReply entry_;
  int done_ = 0;
  int granted_ = 0;
  int alone_ = 0;
  int settled_ = 0;
  int prefetched_ = 0;
};

void ExpectAgreement(TimeOf time_of, int operations) {
  const char* const wanted = std::getenv("SLUICE_DIFFERENTIAL_SEED");
  const auto seed = wanted != nullptr
                        ? static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10))
                        : std::random_device{}();
  // After this many operations, a new Comparison begins with new stores: the embedded store holds
  // at most 100,000 leases of units.
  constexpr int kMostAtOnce = 1'000'000;
  for (int round = 0; round * kMostAtOnce < operations; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    Comparison(time_of, seed + static_cast<std::uint32_t>(round))
        .Run(std::min(operations - round * kMostAtOnce, kMostAtOnce));
  }
}

int Operations() {
  const char* const wanted = std::getenv("SLUICE_DIFFERENTIAL_OPERATIONS");
  return wanted != nullptr ? std::atoi(wanted) : 100'000;
}

// One script call refunds a check, restarts the log with another, and then undoes the first.
TEST(Differential, SlidingLog_CheckUndoneAfterARestart_LogKeepsTheNewUnits) {
  const std::vector<CounterSpec> log = {{"log", SlidingLog{.limit = 100, .window = seconds(1)}, 0}};
  RedisServer server;
  ScriptRunner runner(server.socket_path(), redis::kCheckScript.text);
  const Time start(days(20'000));
  redis::ScriptCall call;
  redis::EntryReply entry;
  const auto decide = [&](std::vector<BlockingCheck*> checks, Time now) {
    call.Clear();
    for (BlockingCheck* check : checks) call.Add(*check, 1);
    auto reply = redis::ScriptReply::Open(runner.Run(call, now));
    ASSERT_TRUE(reply) << runner.error();
    for (BlockingCheck* check : checks) {
      ASSERT_TRUE(reply->Next(*check, 1, entry));
      entry.Answer(*check, 0);
    }
  };
  BlockingCheck taken(log, 20);
  decide({&taken}, start);
  BlockingCheck refund(log, 20, Mode::kRefund);
  BlockingCheck next(log, 1);
  BlockingCheck undo(log, 20, Mode::kUndo);
  undo.counters[0].before = taken.counters[0].before;
  decide({&refund, &next, &undo}, start + milliseconds(1));
  EXPECT_EQ(undo.counters[0].verdict.remaining, 99);
  BlockingCheck peek(log, 0, Mode::kPeek);
  decide({&peek}, start + milliseconds(2));
  EXPECT_EQ(peek.counters[0].verdict.remaining, 99);
}

TEST(Differential, RandomOperations_LuaAndCppAgree) {
  ExpectAgreement(TimeOf::kTest, Operations());
}

// Here keys expire, or their expiry is extended, as in production.
TEST(Differential, RandomOperationsInRedisTime_LuaAndCppAgree) {
  ExpectAgreement(TimeOf::kRedis, Operations());
}

}  // namespace
}  // namespace sluice::test
