// Compares Lua with C++: random checks, packed and coalesced, with a jumping clock, decided by the
// script in a real Redis and by the embedded store. Any difference is a bug in one of them.
// SLUICE_DIFFERENTIAL_OPERATIONS: how many, default 100,000. SLUICE_DIFFERENTIAL_SEED: replays a
// run.
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

std::string Describe(const StoreCheck& check) {
  std::string text = fmt::format("cost {} mode {} admitted {}", check.demand.cost,
                                 static_cast<int>(check.demand.mode), check.admitted);
  for (const CounterCheck& counter : check.counters) {
    const Verdict& verdict = counter.verdict;
    text += fmt::format(
        "\n  {} group {}: admitted {} limit {} remaining {} reset {} retry {} wait {} "
        "dropped {}",
        counter.key, counter.group, verdict.admitted, verdict.limit, verdict.remaining,
        verdict.reset_after.count(), verdict.retry_after.count(), verdict.wait.count(),
        verdict.dropped);
    const auto before = FieldsOf(counter.before);
    if (counter.charged) text += fmt::format(" met {:.0f} {:.0f}", before[0], before[1]);
  }
  return text;
}

// Decides the operation n times, one after another, in the embedded store, and compares each answer
// with the script's one reply. Returns whether all are equal.
bool Agree(const Operation& operation, const redis::EntryReply& reply, MemoryStore& store,
           RandomOperations& random) {
  for (std::int64_t i = 0; i < operation.n; ++i) {
    BlockingCheck& check = operation.check->RunHere(store);
    const std::string cpp = Describe(check);
    reply.Answer(check, i);
    const std::string lua = Describe(check);
    if (i == operation.n / 2) random.RememberGrant(check);
    if (cpp != lua) {
      ADD_FAILURE() << "at " << i << " of " << operation.n << "\nC++: " << cpp << "\nLua: " << lua;
      return false;
    }
  }
  return true;
}

// The check script, except that its keys outlive the test. Redis expires keys by real time, which
// is independent of the test's time: a counter must not expire if the test's clock can still step
// back into its lifetime.
std::string ScriptWithLongLivedKeys() {
  std::string script(redis::kCheckScript.text);
  const auto replace = [&](std::string_view text, std::string_view with) {
    const auto at = script.find(text);
    EXPECT_NE(at, std::string::npos);
    EXPECT_EQ(script.find(text, at + 1), std::string::npos);
    script.replace(at, text.size(), with);
  };
  replace("/ 1000000) + 1\n", "/ 1000000) + 1000000\n");      // seconds
  replace("/ 1000) + 1000))\n", "/ 1000) + 1000000000))\n");  // milliseconds, of leases
  return script;
}

// The clock that decides checks.
enum class TimeOf { kTest, kRedis };

void ExpectAgreement(std::string_view script, TimeOf time_of, int operations) {
  const char* const wanted = std::getenv("SLUICE_DIFFERENTIAL_SEED");
  const auto seed = wanted != nullptr
                        ? static_cast<std::uint32_t>(std::strtoul(wanted, nullptr, 10))
                        : std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomOperations random(seed);
  RedisServer server;
  ScriptRunner runner(server.socket_path(), script);
  constexpr Time kStart(days(20'000));
  constexpr Time kEnd(days(50'000));
  ManualClock clock(kStart);
  MemoryStore memory(clock, {});
  redis::ScriptCall call;
  redis::EntryReply reply;
  std::size_t granted = 0;
  std::size_t refused = 0;

  for (int done = 0; done < operations;) {
    if (time_of == TimeOf::kTest) clock.Advance(random.RandomStep());
    // Doubles hold microseconds up to the year 2255, which the steps would soon reach.
    if (clock.Now() > kEnd) clock.Set(kStart);
    std::vector<Operation> pack(1 + random.Below(5));
    call.Clear();
    for (Operation& operation : pack) {
      operation = random.RandomOperation(clock.Now());
      call.Add(*operation.check, operation.n);
    }
    auto script_reply = redis::ScriptReply::Open(
        time_of == TimeOf::kTest ? runner.Run(call, clock.Now()) : runner.Run(call));
    ASSERT_TRUE(script_reply) << script_reply.error().message << ": " << runner.error();
    clock.Set(script_reply->now());
    for (const Operation& operation : pack) {
      ASSERT_TRUE(script_reply->Next(*operation.check, operation.n, reply));
      ASSERT_EQ(reply.error, "");
      ASSERT_TRUE(Agree(operation, reply, memory, random)) << "after " << done << " operations";
      for (const CounterCheck& counter : operation.check->counters) {
        random.Remember(counter.verdict.retry_after);
        random.Remember(counter.verdict.reset_after);
      }
      if (operation.check->lease && operation.check->demand.mode == Mode::kConsume) {
        random.RememberLease(*operation.check);
      }
      (reply.granted > 0 ? granted : refused) += 1;
      ++done;
    }
  }
  // The run is only a useful test if both outcomes are common.
  EXPECT_GT(granted, static_cast<std::size_t>(operations) / 10);
  EXPECT_GT(refused, static_cast<std::size_t>(operations) / 10);
}

int Operations() {
  const char* const wanted = std::getenv("SLUICE_DIFFERENTIAL_OPERATIONS");
  return wanted != nullptr ? std::atoi(wanted) : 100'000;
}

// One script call undoes a check whose entry the same call has replaced.
TEST(Differential, SlidingLogUndoneAfterItStartedAnew_HoldsTheNewUnits) {
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
  ExpectAgreement(ScriptWithLongLivedKeys(), TimeOf::kTest, Operations());
}

// Here keys expire, or their expiry is extended, as in production.
TEST(Differential, RandomOperationsInRedisTime_LuaAndCppAgree) {
  ExpectAgreement(redis::kCheckScript.text, TimeOf::kRedis, Operations());
}

}  // namespace
}  // namespace sluice::test
