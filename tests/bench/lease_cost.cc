// Measures what a lease of units costs Redis: the CPU to take it and to settle it, compared
// with a plain check of the same counters, and the memory of the lease's record. Each script call
// carries as many checks as fit (a full pack).
//
//   build/release/bench/lease_cost
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/redis/script_call.h"
#include "tests/store/blocking_check.h"
#include "tests/store/script_runner.h"
#include "tests/support/redis_server.h"

namespace sluice::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint32_t kUsers = 2'000;
constexpr int kRounds = 20;

const std::vector<Limit> kLimits[] = {
    {TokenBucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000}},
    {TokenBucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000},
     TokenBucket{.rate = 1'000'000, .period = minutes(1), .burst = 1'000'000},
     FixedWindow{.limit = 1'000'000'000, .window = hours(1)}}};

class Costs {
 public:
  explicit Costs(const std::vector<Limit>& limits) : limits_(limits) {}

  void Print() {
    double plain = 0;
    double take = 0;
    double settle = 0;
    for (int round = 0; round < kRounds; ++round) {
      plain += RunAll(Mode::kConsume, 1, false);
      take += RunAll(Mode::kConsume, 500, true);
      settle += RunAll(Mode::kSettle, 200, true);
    }
    const double checks = static_cast<double>(kUsers) * kRounds;
    std::printf(
        "%zu limits: plain %.1f us  take %.1f us  settle %.1f us  (take + settle) / plain %.2f  "
        "record %lld bytes\n",
        limits_.size(), plain / checks, take / checks, settle / checks, (take + settle) / plain,
        static_cast<long long>(MemoryOfARecord()));
  }

 private:
  // Sends one check for each user, in full packs. Returns Redis' CPU in µs.
  double RunAll(Mode mode, std::int64_t units, bool leased) {
    std::vector<std::unique_ptr<BlockingCheck>> checks;
    for (std::uint32_t user = 0; user < kUsers; ++user) {
      checks.push_back(Make(user, mode, units, leased));
    }
    const double before = Cpu();
    redis::ScriptCall call;
    for (const auto& check : checks) {
      if (!call.HasRoomFor(*check)) Send(call);
      call.Add(*check, 1);
    }
    Send(call);
    return Cpu() - before;
  }

  std::unique_ptr<BlockingCheck> Make(std::uint32_t user, Mode mode, std::int64_t units,
                                      bool leased) const {
    std::vector<CounterSpec> specs;
    for (std::size_t i = 0; i < limits_.size(); ++i) {
      specs.push_back({fmt::format("sluice:{{bench/lease/user={}}}:{}", user, i), limits_[i]});
    }
    auto check = std::make_unique<BlockingCheck>(std::move(specs), units, mode);
    // A pack sends each limit object once, so the checks share the objects.
    for (std::size_t i = 0; i < limits_.size(); ++i) check->counters[i].limit = &limits_[i];
    if (!leased) return check;
    check->leases_units = true;
    check->lease = Lease{.ttl = minutes(1)};
    std::memcpy(check->lease->id.data(), &user, sizeof user);
    return check;
  }

  void Send(redis::ScriptCall& call) {
    if (runner_.Run(call).empty()) std::printf("failed: %s\n", runner_.error().c_str());
    call.Clear();
  }

  double Cpu() const {
    clockid_t clock{};
    timespec time{};
    clock_getcpuclockid(server_.pid(), &clock);
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
  }

  std::int64_t MemoryOfARecord() {
    auto redis = server_.Connect();
    const auto used = [&] {
      const std::string info = redis.Text({"INFO", "memory"});
      return std::stoll(info.substr(info.find("used_memory:") + 12));
    };
    RunAll(Mode::kConsume, 1, true);
    const auto with = used();
    redis.Text({"EVAL",
                "for _, k in ipairs(redis.call('KEYS', '*:lease:*')) do redis.call('DEL', k) end "
                "return ''",
                "0"});
    return (with - used()) / kUsers;
  }

  const std::vector<Limit>& limits_;
  RedisServer server_;
  ScriptRunner runner_{server_.socket_path(), redis::kCheckScript.text};
};

}  // namespace
}  // namespace sluice::test

int main() {
  for (const auto& limits : sluice::test::kLimits) sluice::test::Costs(limits).Print();
}
