// Measures what a fleet costs its Redis: CPU per check, checks per call, memory per connection.
//
//   build/release/bench/fleet_cost [--seconds 1] [--in-flight 256]
//
// First, 1 to 64 io threads share one Redis: with a constant number of checks in flight
// (--in-flight), then with one check in flight for each thread. The more threads share the checks,
// the fewer checks a call carries. Then come sidecars, each with one io thread and 100 checks a
// second; first with one rule, then with two. At most 64 sidecars are measured. For 100 sidecars,
// 64 threads send the load. For 1,000 sidecars, the figures are computed from the cost of a check
// while 64 threads keep Redis busy.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/log.h"
#include "net/io_threads.h"
#include "store/redis/redis_store.h"
#include "tests/bench/number_flags.h"
#include "tests/support/redis_server.h"
#include "tests/support/require.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

constexpr int kUsers = 100'000;

// What an Asker checks, and when.
struct Asking {
  int rules = 1;      // 1: per user; 2: also for the whole site
  Duration period{};  // between checks; zero: an answer starts the next check
};

// Sends checks, each for another user.
class Asker final : public StoreCheck {
 public:
  Asker(RedisStore& store, const std::atomic<bool>& goes_on, std::uint64_t seed, Asking asking)
      : store_(store), goes_on_(goes_on), asking_(asking), user_(seed * 7919) {
    counters.push_back({.key = {}, .limit = &kUserLimit, .verdict = {}});
    if (asking.rules == 1) return;
    counters.push_back(
        {.key = "sluice:{bench/site/}:token_bucket:1s", .limit = &kSiteLimit, .verdict = {}});
  }

  // Runs on the thread of `loop`, like the private functions.
  void Start(net::Loop& loop) {
    if (asking_.period == Duration()) return Ask();
    timer_.emplace(loop.timers(), [this] { OnTime(); });
    // Sidecars are independent, so their checks are spread over time.
    next_ = loop.now() + Duration(static_cast<std::int64_t>(user_) % asking_.period.count());
    timer_->Start(next_);
  }

  // These three may be called on any thread.
  std::int64_t answered() const { return answered_.load(std::memory_order_relaxed); }
  bool ended() const { return ended_; }
  bool failed() const { return failed_; }

 private:
  void OnTime() {
    if (!goes_on_) {
      ended_ = !asks_;
      if (ended_) return;
    }
    next_ += asking_.period;
    timer_->Start(next_);
    if (goes_on_ && !asks_) Ask();
  }

  void Ask() {
    asks_ = true;
    user_ = (user_ + 48'271) % kUsers;
    key_.resize(0);
    fmt::format_to(std::back_inserter(key_), "sluice:{{bench/user/user={}}}:token_bucket:1s",
                   user_);
    counters.front().key = key_;
    store_.Submit(*this);
  }

  void OnDecided() override {
    asks_ = false;
    failed_ = failed_ || failure();
    answered_.store(answered() + 1, std::memory_order_relaxed);
    if (timer_) return;
    if (failed_ || !goes_on_) {
      ended_ = true;
    } else {
      Ask();
    }
  }

  inline static const Limit kUserLimit =
      TokenBucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000};
  inline static const Limit kSiteLimit = kUserLimit;

  RedisStore& store_;
  const std::atomic<bool>& goes_on_;
  const Asking asking_;
  std::uint64_t user_;
  std::string key_;
  std::optional<net::Timer> timer_;
  SteadyTime next_;
  bool asks_ = false;
  std::atomic<std::int64_t> answered_ = 0;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> failed_ = false;
};

// The measurements of a part of a run, or of the run until now.
struct Figures {
  double checks = 0;
  double calls = 0;
  double cpu = 0;     // CPU of Redis, µs
  double memory = 0;  // memory of Redis' connections, bytes

  double pack() const { return checks / calls; }
  double cpu_of_check() const { return cpu / checks; }
};

double MicrosecondsOf(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

// The io threads of a fleet, all in this process, on one Redis.
class Crowd {
 public:
  Crowd(int threads, int askers, Asking asking = {}) : threads_(static_cast<std::size_t>(threads)) {
    clock_getcpuclockid(redis_.pid(), &redis_clock_);
    threads_.Start();
    store_ = std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(redis_.url()).value(),
        RedisStore::Options{.timeout = seconds(5), .silence = seconds(30)});
    Require(store_->WaitUntilReady(seconds(30)), "the store does not connect");
    for (int i = 0; i < askers; ++i) {
      askers_.push_back(
          std::make_unique<Asker>(*store_, goes_on_, static_cast<std::uint64_t>(i), asking));
    }
  }
  ~Crowd() {
    store_.reset();
    threads_.Stop();
  }

  Figures Measure(Duration duration) {
    for (std::size_t i = 0; i < askers_.size(); ++i) {
      net::EpollLoop& loop = threads_.loop(i % threads_.size());
      loop.Post([asker = askers_[i].get(), &loop] { asker->Start(loop); });
    }
    std::this_thread::sleep_for(duration / 2);  // until most users have a counter
    const Figures before = SoFar();
    std::this_thread::sleep_for(duration);
    Figures figures = SoFar();
    figures.checks -= before.checks;
    figures.calls -= before.calls;
    figures.cpu -= before.cpu;
    goes_on_ = false;
    Require(WaitUntil(seconds(60), [&] { return AllOf(&Asker::ended); }),
            "a check is not answered");
    Require(!std::any_of(askers_.begin(), askers_.end(), [](auto& it) { return it->failed(); }),
            "a check was not decided by Redis");
    return figures;
  }

 private:
  bool AllOf(bool (Asker::*is)() const) const {
    return std::all_of(askers_.begin(), askers_.end(), [&](auto& it) { return (*it.*is)(); });
  }

  Figures SoFar() {
    RedisConnection redis = redis_.Connect();
    Figures figures;
    for (const auto& asker : askers_) figures.checks += static_cast<double>(asker->answered());
    figures.calls = static_cast<double>(redis.Calls("evalsha"));
    figures.cpu = MicrosecondsOf(redis_clock_);
    const std::string memory = redis.Text({"INFO", "memory"});
    figures.memory = std::stod(memory.substr(memory.find("mem_clients_normal:") + 19));
    return figures;
  }

  RedisServer redis_;
  clockid_t redis_clock_{};
  net::IoThreads threads_;
  std::unique_ptr<RedisStore> store_;
  std::atomic<bool> goes_on_ = true;
  std::vector<std::unique_ptr<Asker>> askers_;
};

void PrintShared(Duration duration, int in_flight) {
  std::printf("%8s %10s %10s %12s %12s %14s\n", "threads", "in flight", "pack", "us of CPU",
              "ratio", "B a connection");
  double first = 0;
  for (const bool one_each : {false, true}) {
    for (const int threads : {1, 2, 4, 8, 16, 32, 64}) {
      const int checks = one_each ? threads : in_flight;
      const Figures it = Crowd(threads, checks).Measure(duration);
      if (first == 0) first = it.cpu_of_check();
      // `memory` includes the connection that reads these figures.
      std::printf("%8d %10d %10.1f %12.2f %12.2f %14.0f\n", threads, checks, it.pack(),
                  it.cpu_of_check(), it.cpu_of_check() / first, it.memory / (threads + 1));
      std::fflush(stdout);
    }
  }
}

void PrintSidecars(Duration duration) {
  constexpr int kMostThreads = 64;
  constexpr double kRate = 100;  // checks a second of each sidecar
  std::printf("\nsidecars of one io thread, %.0f checks a second each:\n", kRate);
  std::printf("%8s %6s %12s %12s %12s %12s %10s  %s\n", "sidecars", "rules", "connections",
              "checks/s", "us of CPU", "cores", "MB", "");
  for (const int rules : {1, 2}) {
    double connection_bytes = 0;
    for (const int sidecars : {10, 16, 64, 100, 1'000}) {
      const int threads = std::min(sidecars, kMostThreads);
      const bool is_computed = sidecars > 100;
      const double rate = kRate * sidecars / threads;
      const auto period =
          std::chrono::duration_cast<Duration>(std::chrono::duration<double>(1 / rate));
      const Asking asking{.rules = rules, .period = is_computed ? Duration() : period};
      const Figures it = Crowd(threads, threads, asking).Measure(duration);
      if (threads == sidecars) connection_bytes = it.memory / (threads + 1);
      const double checks = kRate * sidecars;
      std::printf("%8d %6d %12d %12.0f %12.2f %12.3f %10.2f  %s\n", sidecars, rules, sidecars,
                  checks, it.cpu_of_check(), checks * it.cpu_of_check() / 1e6,
                  sidecars * connection_bytes / 1e6,
                  is_computed          ? "computed"
                  : sidecars > threads ? "sent by 64 threads"
                                       : "measured");
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  double length = 1;
  int in_flight = 256;
  NumberFlags flags(argc, argv);
  flags.Read("--seconds", length);
  flags.Read("--in-flight", in_flight);
  flags.RequireNoOthers();
  const auto duration = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(length));

  PrintShared(duration, in_flight);
  PrintSidecars(duration);
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Main(argc, argv); }
