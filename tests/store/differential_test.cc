// Lua against C++: random checks, packed and in runs, with the clock jumping about, decided by the
// script in a real Redis and by the embedded store. Any difference is a bug in one of the two.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "store/memory/memory_store.h"
#include "store/redis/script_call.h"
#include "store/undo_check.h"
#include "tests/store/blocking_check.h"
#include "tests/store/script_runner.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

// Another limit of the same shape.
Limit Smaller(const Limit& limit) {
  const auto part = [](std::int64_t value) { return std::max<std::int64_t>(1, value / 5 * 2); };
  return std::visit(
      [&](auto smaller) -> Limit {
        if constexpr (requires { smaller.limit; }) smaller.limit = part(smaller.limit);
        if constexpr (requires { smaller.rate; }) smaller.rate = part(smaller.rate);
        if constexpr (requires { smaller.burst; }) smaller.burst = part(smaller.burst);
        if constexpr (requires { smaller.queue; }) smaller.queue = part(smaller.queue + 1) - 1;
        return smaller;
      },
      limit);
}

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Operation {
  std::unique_ptr<BlockingCheck> check;
  std::int64_t n = 1;
};

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("fixed{}", i), RandomFixedWindow());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("log{}", i), RandomSlidingLog());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("window{}", i), RandomSlidingWindow());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("token{}", i), RandomTokenBucket());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("warming{}", i), RandomWarmingBucket());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("leaky{}", i), RandomLeakyBucket());
    for (int i = 0; i < 30; ++i) AddLimit(fmt::format("slots{}", i), RandomConcurrency());
  }

  template <typename T>
  T Pick(std::initializer_list<T> of) {
    return of.begin()[Below(of.size())];
  }
  std::size_t Below(std::size_t bound) { return random_() % bound; }
  bool OneIn(std::size_t n) { return Below(n) == 0; }

  // A time that an answer named; the next steps may land on it, or just beside it.
  void Remember(Duration edge) {
    if (edge != Verdict::kNever) edges_[Below(edges_.size())] = edge;
  }

  Duration RandomStep() {
    if (OneIn(3)) return edges_[Below(edges_.size())] - Duration(Below(2));
    const auto some = static_cast<std::int64_t>(1 + Below(1000));
    if (OneIn(50))
      return -Pick<Duration>({Duration(1), milliseconds(1), milliseconds(999), seconds(1),
                              seconds(1) + Duration(1), hours(1)});
    if (OneIn(200)) return Pick<Duration>({hours(some), days(some), minutes(some), -days(some)});
    return Pick<Duration>({Duration(0), Duration(some), milliseconds(some), seconds(some)});
  }

  // A check, and how often it is to be made.
  Operation RandomOperation(Time now) {
    if (!leases_.empty() && OneIn(8)) return RandomLeaseOperation();
    if (!grants_.empty() && OneIn(8)) return UndoOfSomeGrant();
    const Mode mode = Pick({Mode::kConsume, Mode::kConsume, Mode::kConsume, Mode::kConsume,
                            Mode::kPeek, Mode::kCharge, Mode::kRefund});
    Operation operation;
    operation.check = std::make_unique<BlockingCheck>(RandomCounters(mode), RandomCost(), mode);
    BlockingCheck& check = *operation.check;
    if (check.demand.cost == 0) check.demand.mode = Mode::kPeek;
    if (OneIn(3)) check.demand.max_wait = RandomWait();
    if (mode == Mode::kRefund && OneIn(2)) check.demand.charged_at = now - RandomWait();
    bool may_run = check.demand.mode == Mode::kConsume || check.demand.mode == Mode::kPeek;
    for (const CounterCheck& counter : check.counters) {
      may_run &= MayRunTogether(*counter.limit);
      const auto* const slots = std::get_if<Concurrency>(counter.limit);
      if (slots != nullptr && mode == Mode::kConsume) check.lease = NewLease(slots->ttl);
    }
    if (may_run && OneIn(2)) operation.n = Pick<std::int64_t>({2, 3, 10, 50});
    return operation;
  }

  // The counters a lease may be held in are those of the check that took it.
  void RememberLease(const BlockingCheck& check) {
    std::vector<CounterSpec> held;
    for (const CounterCheck& counter : check.counters) {
      if (!std::holds_alternative<Concurrency>(*counter.limit)) continue;
      held.push_back({std::string(counter.key), *counter.limit});
    }
    HeldLease lease{*check.lease, std::move(held)};
    if (leases_.size() < 200) return leases_.push_back(std::move(lease));
    leases_[Below(leases_.size())] = std::move(lease);
  }

  // May be undone later, once.
  void RememberGrant(const StoreCheck& check) {
    auto grant = std::make_unique<UndoCheck>(check, UndoCheck::What::kCharged);
    if (grant->counters.empty()) return;
    if (grants_.size() < 50) return grants_.push_back(std::move(grant));
    grants_[Below(grants_.size())] = std::move(grant);
  }

 private:
  struct HeldLease {
    Lease lease;
    std::vector<CounterSpec> counters;
  };

  Operation RandomLeaseOperation() {
    const HeldLease& held = leases_[Below(leases_.size())];
    Operation operation;
    const Mode mode = Pick({Mode::kRelease, Mode::kRenew, Mode::kCharge});
    operation.check = std::make_unique<BlockingCheck>(
        held.counters, Pick<std::int64_t>({1, 2, 7, 256, 257}), mode);
    operation.check->lease = held.lease;
    return operation;
  }

  // Mostly of one that came lately.
  Operation UndoOfSomeGrant() {
    const std::size_t place = OneIn(2) ? grants_.size() - 1 : Below(grants_.size());
    const auto undo = std::move(grants_[place]);
    grants_.erase(grants_.begin() + static_cast<std::ptrdiff_t>(place));
    std::vector<CounterSpec> specs;
    for (const CounterCheck& counter : undo->counters) {
      specs.push_back({std::string(counter.key), *counter.limit, counter.group});
    }
    Operation operation;
    operation.check =
        std::make_unique<BlockingCheck>(std::move(specs), undo->demand.cost, Mode::kUndo);
    operation.check->lease = undo->lease;
    for (std::size_t i = 0; i < undo->counters.size(); ++i) {
      operation.check->counters[i].before = undo->counters[i].before;
    }
    return operation;
  }

  std::int64_t RandomCost() {
    return OneIn(20) ? Pick<std::int64_t>({1000, 1'000'000, kMaxCost - 1, kMaxCost})
                     : Pick<std::int64_t>({0, 1, 1, 1, 1, 2, 3, 5, 7, 10, 20});
  }

  Duration RandomWait() {
    constexpr Duration kMost = days(365);
    return OneIn(4) ? std::clamp(edges_[Below(edges_.size())], Duration(0), kMost)
                    : Pick<Duration>({Duration(0), Duration(1), milliseconds(20), seconds(1),
                                      minutes(1), hours(1), kMost});
  }

  Lease NewLease(Duration ttl) {
    Lease lease{.ttl = ttl};
    for (auto& byte : lease.id) byte = static_cast<std::uint8_t>(random_());
    return lease;
  }

  // Distinct counters in ascending groups, of limits to which the mode means something.
  std::vector<CounterSpec> RandomCounters(Mode mode) {
    std::vector<CounterSpec> counters;
    std::uint16_t group = OneIn(10) ? 1 : 0;
    const std::size_t count = OneIn(2) ? 1 : 1 + Below(4);
    while (counters.size() < count) {
      CounterSpec spec = limits_[Below(limits_.size())];
      if (!Supports(spec.limit, mode)) continue;
      spec.key += std::to_string(Below(2));
      spec.group = group;
      bool known = false;
      for (const auto& counter : counters) known |= counter.key == spec.key;
      if (!known) counters.push_back(spec);
      if (OneIn(4)) ++group;
    }
    return counters;
  }

  void AddLimit(const std::string& key, const Limit& limit) {
    limits_.push_back({key, limit});
    // Another size of the same shape meets the same counters, as after a reload.
    limits_.push_back({key, Smaller(limit)});
  }

  Limit RandomFixedWindow() {
    FixedWindow limit{.limit = Pick<std::int64_t>({1, 2, 5, 10, 100, kMaxProduct}),
                      .window = Pick<Duration>({milliseconds(1), milliseconds(1500), seconds(1),
                                                minutes(1), hours(1), days(1), days(7), days(30)}),
                      .align = Pick({FixedWindow::Align::kFirst, FixedWindow::Align::kClock,
                                     FixedWindow::Align::kMonth})};
    if (limit.align != FixedWindow::Align::kFirst) {
      limit.utc_offset = minutes(Pick({0, 60, 480, -210, 845}));
    }
    return limit;
  }

  Limit RandomSlidingLog() {
    return SlidingLog{
        .limit = Pick<std::int64_t>({1, 2, 5, 20, 1000, SlidingLog::kMaxLimit}),
        .window = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)})};
  }

  Limit RandomTokenBucket() {
    TokenBucket limit{
        .rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
        .period = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
        .burst = Pick<std::int64_t>({1, 2, 10, 97}),
        .starts_empty = OneIn(4),
        .borrows = OneIn(3)};
    if (OneIn(5)) limit.burst = TokenBucket::kMaxCapacity / limit.period.count();
    if (OneIn(10)) limit.rate = TokenBucket::kMaxRate;
    return limit;
  }

  Limit RandomSlidingWindow() {
    return SlidingWindow{
        .limit = Pick<std::int64_t>({1, 2, 5, 20, 1000, kMaxProduct}),
        .window = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
        .segments = Pick<std::int64_t>({1, 2, 7, 10, SlidingWindow::kMaxSegments})};
  }

  Limit RandomWarmingBucket() {
    return WarmingBucket{.rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
                         .period = Pick<Duration>({seconds(1), minutes(1), hours(1), days(1)}),
                         .warmup = Pick<Duration>({milliseconds(1), milliseconds(700), seconds(3),
                                                   minutes(1), hours(1)})};
  }

  Limit RandomLeakyBucket() {
    LeakyBucket limit{
        .rate = Pick<std::int64_t>({1, 3, 7, 10, 1000, 999'983}),
        .period = Pick<Duration>({milliseconds(1), seconds(1), minutes(1), hours(1), days(1)}),
        .queue = Pick<std::int64_t>({0, 1, 4, 97}),
        .delays = OneIn(2)};
    if (OneIn(5)) limit.queue = TokenBucket::kMaxCapacity / limit.period.count() - 1;
    return limit;
  }

  Limit RandomConcurrency() {
    return Concurrency{.limit = Pick<std::int64_t>({1, 2, 5, 20, 1000}),
                       .ttl = Pick<Duration>(
                           {milliseconds(1), milliseconds(50), seconds(1), seconds(30), hours(1)})};
  }

  std::mt19937 random_;
  std::vector<CounterSpec> limits_;
  std::vector<HeldLease> leases_;
  std::vector<std::unique_ptr<UndoCheck>> grants_;
  std::array<Duration, 4> edges_{};
};

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

// Decides the operation n times, one after the other, in the embedded store, and compares each
// answer with what the script's one reply says to it. Returns whether all are equal.
bool Agree(const Operation& operation, const redis::RunReply& reply, MemoryStore& store,
           World& world) {
  for (std::int64_t i = 0; i < operation.n; ++i) {
    BlockingCheck& check = operation.check->RunHere(store);
    const std::string cpp = Describe(check);
    reply.Answer(check, i);
    const std::string lua = Describe(check);
    if (i == operation.n / 2) world.RememberGrant(check);
    if (cpp != lua) {
      ADD_FAILURE() << "at " << i << " of " << operation.n << "\nC++: " << cpp << "\nLua: " << lua;
      return false;
    }
  }
  return true;
}

// The check script, but that its keys outlive the test. Redis expires keys by real time, which has
// nothing to do with the time of the test: a counter must not vanish where the clock is yet to step
// back into its life.
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

// Whose time checks are decided by.
enum class TimeOf { kTest, kRedis };

void ExpectAgreement(std::string_view script, TimeOf time_of, int operations) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  World world(seed);
  RedisServer server;
  ScriptRunner runner(server.socket_path(), script);
  constexpr Time kStart(days(20'000));
  constexpr Time kEnd(days(50'000));
  ManualClock clock(kStart);
  MemoryStore memory(clock, {});
  redis::ScriptCall call;
  redis::RunReply reply;
  std::size_t granted = 0;
  std::size_t refused = 0;

  for (int done = 0; done < operations;) {
    if (time_of == TimeOf::kTest) clock.Advance(world.RandomStep());
    // Doubles hold microseconds up to the year 2255; the steps would soon be there.
    if (clock.Now() > kEnd) clock.Set(kStart);
    std::vector<Operation> pack(1 + world.Below(5));
    call.Clear();
    for (Operation& operation : pack) {
      operation = world.RandomOperation(clock.Now());
      call.Add(*operation.check, operation.n);
    }
    auto script_reply = redis::ScriptReply::Open(
        time_of == TimeOf::kTest ? runner.Run(call, clock.Now()) : runner.Run(call));
    ASSERT_TRUE(script_reply) << script_reply.error().message << ": " << runner.error();
    clock.Set(script_reply->now());
    for (const Operation& operation : pack) {
      ASSERT_TRUE(script_reply->Next(*operation.check, operation.n, reply));
      ASSERT_EQ(reply.error, "");
      ASSERT_TRUE(Agree(operation, reply, memory, world)) << "after " << done << " operations";
      for (const CounterCheck& counter : operation.check->counters) {
        world.Remember(counter.verdict.retry_after);
        world.Remember(counter.verdict.reset_after);
      }
      if (operation.check->lease && operation.check->demand.mode == Mode::kConsume) {
        world.RememberLease(*operation.check);
      }
      (reply.granted > 0 ? granted : refused) += 1;
      ++done;
    }
  }
  // The world is no test unless both outcomes are common.
  EXPECT_GT(granted, static_cast<std::size_t>(operations) / 10);
  EXPECT_GT(refused, static_cast<std::size_t>(operations) / 10);
}

int Operations() {
  const char* const wanted = std::getenv("SLUICE_DIFFERENTIAL_OPERATIONS");
  return wanted != nullptr ? std::atoi(wanted) : 100'000;
}

TEST(Differential, RandomOperations_LuaAndCppAgree) {
  ExpectAgreement(ScriptWithLongLivedKeys(), TimeOf::kTest, Operations());
}

// Here keys expire, and are kept from it, as they do in use.
TEST(Differential, RandomOperationsInRedisTime_LuaAndCppAgree) {
  ExpectAgreement(redis::kCheckScript.text, TimeOf::kRedis, Operations());
}

}  // namespace
}  // namespace sluice::test
