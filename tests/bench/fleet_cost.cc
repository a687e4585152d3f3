// Measures the cost of a fleet for its Redis: CPU and calls per check, and memory per connection,
// by the number of io threads that share one Redis. Computes fleets of up to 1,000 servers from a
// fit of the measurements.
//
//   build/release/bench/fleet_cost [--seconds 1] [--in-flight 256] [--rate 100000]
//
// An io thread has one connection to each node of Redis and one call at a time on it, so the more
// threads share the checks, the fewer checks a call carries. A call that carries p checks costs
// Redis a fixed part and a part for each check: CPU per check = a + b / p, with fitted a and b.
// If that needs more than one core per node, checks wait and packs grow until one core is enough.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <memory>
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

// Sends the next check as soon as it is answered, each time for another user.
class Asker final : public StoreCheck {
 public:
  Asker(RedisStore& store, const std::atomic<bool>& goes_on, std::uint64_t seed)
      : store_(store), goes_on_(goes_on), user_(seed * 7919) {
    counters.push_back({.key = {}, .limit = &kLimit, .verdict = {}});
  }

  void Ask() {
    user_ = (user_ + 48'271) % kUsers;
    key_.resize(0);
    fmt::format_to(std::back_inserter(key_), "sluice:{{bench/user/user={}}}:token_bucket:1s",
                   user_);
    counters.front().key = key_;
    store_.Submit(*this);
  }

  // Of any thread.
  std::int64_t answered() const { return answered_.load(std::memory_order_relaxed); }
  bool ended() const { return ended_; }
  bool failed() const { return failed_; }

 private:
  void OnDecided() override {
    failed_ = failed_ || failure();
    answered_.store(answered() + 1, std::memory_order_relaxed);
    if (failed_ || !goes_on_) {
      ended_ = true;
    } else {
      Ask();
    }
  }

  inline static const Limit kLimit =
      TokenBucket{.rate = 1'000'000, .period = seconds(1), .burst = 1'000'000};

  RedisStore& store_;
  const std::atomic<bool>& goes_on_;
  std::uint64_t user_;
  std::string key_;
  std::atomic<std::int64_t> answered_ = 0;
  std::atomic<bool> ended_ = false;
  std::atomic<bool> failed_ = false;
};

// Of a part of a run, or so far.
struct Figures {
  double checks = 0;
  double calls = 0;
  double cpu = 0;     // of Redis, µs
  double time = 0;    // µs
  double memory = 0;  // of Redis' connections, bytes

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
  Crowd(int threads, int in_flight) : threads_(static_cast<std::size_t>(threads)) {
    clock_getcpuclockid(redis_.pid(), &redis_clock_);
    threads_.Start();
    store_ = std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(redis_.url()).value(),
        RedisStore::Options{.timeout = seconds(5), .silence = seconds(30)});
    Require(store_->WaitUntilReady(seconds(30)), "the store does not connect");
    for (int i = 0; i < in_flight; ++i) {
      askers_.push_back(std::make_unique<Asker>(*store_, goes_on_, static_cast<std::uint64_t>(i)));
    }
  }
  ~Crowd() {
    store_.reset();
    threads_.Stop();
  }

  Figures Measure(Duration duration) {
    for (std::size_t i = 0; i < askers_.size(); ++i) {
      threads_.loop(i % threads_.size()).Post([asker = askers_[i].get()] { asker->Ask(); });
    }
    std::this_thread::sleep_for(duration / 2);  // most users have their counters then
    const Figures before = SoFar();
    std::this_thread::sleep_for(duration);
    Figures figures = SoFar();
    figures.checks -= before.checks;
    figures.calls -= before.calls;
    figures.cpu -= before.cpu;
    figures.time -= before.time;
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
    figures.time = MicrosecondsOf(CLOCK_MONOTONIC);
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

// CPU of a check = a + b / pack, by least squares.
struct Fit {
  double a = 0;
  double b = 0;

  explicit Fit(const std::vector<Figures>& measured) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (const Figures& it : measured) {
      const double inverse = 1 / it.pack();
      n += 1;
      x += inverse;
      y += it.cpu_of_check();
      xx += inverse * inverse;
      xy += inverse * it.cpu_of_check();
    }
    b = (n * xy - x * y) / (n * xx - x * x);
    a = (y - b * x) / n;
  }
  double CpuOfCheck(double pack) const { return a + b / pack; }
};

void PrintFleets(const Fit& fit, double rate, double round_trip, double connection_bytes) {
  constexpr int kThreads = 2;
  std::printf("\n%.0f checks a second in all, %d io threads a server, a call takes %.0f us:\n",
              rate, kThreads, round_trip);
  std::printf("%8s %6s %12s %12s %10s %12s %12s %10s\n", "servers", "nodes", "connections",
              "a node", "pack", "CPU, ratio", "cores a node", "MB a node");
  for (const int servers : {1, 10, 100, 1'000}) {
    for (const int nodes : {1, 3, 10}) {
      const double of_node = servers * kThreads;
      const double at_once = rate / (of_node * nodes) * round_trip / 1e6;
      const double pack = std::clamp(at_once, 1.0, 64.0);
      std::printf("%8d %6d %12.0f %12.0f %10.1f %12.2f %12.2f %10.1f\n", servers, nodes,
                  of_node * nodes, of_node, pack, fit.CpuOfCheck(pack) / fit.CpuOfCheck(64),
                  rate / nodes * fit.CpuOfCheck(pack) / 1e6, of_node * connection_bytes / 1e6);
    }
  }
}

int Main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  double length = 1;
  int in_flight = 256;
  double rate = 100'000;
  NumberFlags flags(argc, argv);
  flags.Read("--seconds", length);
  flags.Read("--in-flight", in_flight);
  flags.Read("--rate", rate);
  flags.RequireNoOthers();
  const auto duration = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(length));

  std::vector<Figures> measured;
  double round_trip = 0;
  double connection_bytes = 0;
  std::printf("%8s %10s %10s %12s %12s %14s\n", "threads", "in flight", "pack", "us of CPU",
              "ratio", "B a connection");
  for (const bool one_each : {false, true}) {
    for (const int threads : {1, 2, 4, 8, 16, 32, 64}) {
      const int checks = one_each ? threads : in_flight;
      const Figures it = Crowd(threads, checks).Measure(duration);
      measured.push_back(it);
      if (one_each && threads == 1) round_trip = it.time / it.calls;
      connection_bytes = it.memory / (threads + 1);  // the one that asks for it, too
      std::printf("%8d %10d %10.1f %12.2f %12.2f %14.0f\n", threads, checks, it.pack(),
                  it.cpu_of_check(), it.cpu_of_check() / measured.front().cpu_of_check(),
                  connection_bytes);
      std::fflush(stdout);
    }
  }
  const Fit fit(measured);
  double worst = 0;
  for (const Figures& it : measured) {
    worst = std::max(worst, std::abs(fit.CpuOfCheck(it.pack()) / it.cpu_of_check() - 1));
  }
  std::printf("fit: %.2f + %.2f / pack us of CPU a check, at most %.0f%% off\n", fit.a, fit.b,
              100 * worst);
  PrintFleets(fit, rate, round_trip, connection_bytes);
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) { return sluice::test::Main(argc, argv); }
