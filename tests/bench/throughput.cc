// How much of gRPC's own throughput is left when every check is decided in Redis: drives a server
// that decides nothing and Sluice on Redis in turn, under the same load, and prints the ratio.
//
//   cmake --preset release && cmake --build --preset release --target throughput
//   build/release/bench/throughput [--seconds 3] [--rounds 3] [--in-flight 400] [--channels 8]
//                                  [--versus PATH_OF_ANOTHER_SLUICED]
//
// With --versus: sluiced and another build of it in turn, and what a check costs the one in terms
// of the other. For a difference of one percent take many short rounds (--rounds 20 --seconds 2).
//
// Takes rounds × 3 cases × (seconds + 0.5). Load generator, servers and Redis share the machine, so
// let nothing else run on it. Only the ratio is worth comparing between machines.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "sluice/v1/rate_limiter.pb.h"
#include "tests/bench/closed_loop.h"
#include "tests/support/redis_server.h"
#include "tests/support/require.h"
#include "tests/support/sluice_server.h"

namespace sluice::bench {
namespace {

constexpr int kKeys = 100'000;
constexpr Duration kWarmUp = std::chrono::milliseconds(500);

// Admits everything, so that each check writes.
constexpr char kRules[] = R"yaml(
domain: bench
rules:
  - name: per-user
    match: {endpoint: /pay}
    per: [user]
    limits:
      - {algorithm: token_bucket, rate: 1000000/s, burst: 1000000}
)yaml";

struct Settings {
  double seconds = 3;
  int rounds = 3;
  std::string versus;  // path of another sluiced
  ClosedLoop::Options load;
};

Settings ParseFlags(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 1; i + 1 < argc; i += 2) flags[argv[i]] = argv[i + 1];
  Settings settings;
  const auto number = [&](const char* name, auto& value) {
    const auto flag = flags.extract(name);
    if (flag) value = static_cast<std::decay_t<decltype(value)>>(std::stod(flag.mapped()));
  };
  number("--seconds", settings.seconds);
  number("--rounds", settings.rounds);
  number("--in-flight", settings.load.in_flight);
  number("--channels", settings.load.channels);
  if (const auto flag = flags.extract("--versus")) settings.versus = flag.mapped();
  test::Require(flags.empty() && argc % 2 == 1, "unknown flag or missing value");
  return settings;
}

std::vector<grpc::ByteBuffer> MakeRequests(int keys) {
  std::vector<grpc::ByteBuffer> requests;
  v1::CheckLimitRequest request;
  request.set_domain("bench");
  (*request.mutable_attributes())["endpoint"] = "/pay";
  for (int i = 0; i < keys; ++i) {
    (*request.mutable_attributes())["user"] = std::to_string(1'000'000 + i);
    const grpc::Slice slice(request.SerializeAsString());
    requests.emplace_back(&slice, 1);
  }
  return requests;
}

// User and system time of a process so far.
double CpuSeconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));  // from field 3 on
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Round {
  double per_second = 0;
  double server_cpu = 0;  // seconds per million checks
  double redis_cpu = 0;   // the same
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Case {
 public:
  Case(const char* name, ClosedLoop& load, const std::vector<grpc::ByteBuffer>& requests,
       pid_t server, pid_t redis)
      : name_(name), load_(&load), requests_(&requests), server_(server), redis_(redis) {}

  void RunOnce(Duration duration) {
    load_->Run(*requests_, kWarmUp);
    const double server_before = CpuSeconds(server_);
    const double redis_before = CpuSeconds(redis_);
    const LoadResult result = load_->Run(*requests_, duration);
    const double millions = static_cast<double>(result.calls) / 1e6;
    rounds_.push_back({.per_second = result.PerSecond(),
                       .server_cpu = (CpuSeconds(server_) - server_before) / millions,
                       .redis_cpu = (CpuSeconds(redis_) - redis_before) / millions});
    errors_ += result.errors;
    sampled_ += result.sampled;
    not_by_store_ += result.not_by_store;
  }

  // What a check costs here in CPU time of the server, in terms of `base`: round by round, and in
  // the best rounds, which what else the machine did has disturbed least.
  void PrintCost(const Case& base) const {
    const auto cost = [](const Round& round) { return round.server_cpu; };
    std::printf(
        "%s takes of the CPU time of %s a check: %.3f (median of %zu rounds), %.3f (best)\n", name_,
        base.name_, MedianRatio(base, cost), rounds_.size(), Best(cost) / base.Best(cost));
  }

  // `base` is the case to compare with, round by round: what else the machine did weighs on both.
  void Print(const Case& base) const {
    const double not_by_store = static_cast<double>(not_by_store_) /
                                static_cast<double>(std::max<std::int64_t>(1, sampled_));
    std::printf("%-24s %10.0f %8.2f %14.2f %14.2f %8lld %9.2f%%\n", name_,
                Median([](const Round& round) { return round.per_second; }),
                MedianRatio(base, [](const Round& round) { return round.per_second; }),
                Median([](const Round& round) { return round.server_cpu; }),
                Median([](const Round& round) { return round.redis_cpu; }),
                static_cast<long long>(errors_), 100 * not_by_store);
  }

 private:
  template <typename Value>
  double Median(Value value) const {
    std::vector<double> values;
    for (const Round& round : rounds_) values.push_back(value(round));
    return MedianOf(std::move(values));
  }

  // Of the best tenth of the rounds the worst.
  template <typename Value>
  double Best(Value value) const {
    std::vector<double> values;
    for (const Round& round : rounds_) values.push_back(value(round));
    std::sort(values.begin(), values.end());
    return values[values.size() / 10];
  }

  template <typename Value>
  double MedianRatio(const Case& base, Value value) const {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < rounds_.size(); ++i) {
      ratios.push_back(value(rounds_[i]) / value(base.rounds_[i]));
    }
    return MedianOf(std::move(ratios));
  }

  const char* name_;
  ClosedLoop* load_;
  const std::vector<grpc::ByteBuffer>* requests_;
  pid_t server_;
  pid_t redis_;
  std::vector<Round> rounds_;
  std::int64_t errors_ = 0;
  std::int64_t sampled_ = 0;
  std::int64_t not_by_store_ = 0;
};

std::string ReadyAddress(test::Process& process) {
  const auto ready = process.WaitForLine("ready grpc=", std::chrono::seconds(10));
  test::Require(ready.has_value(), "noop_server does not start:\n" + process.Output());
  return ready->substr(ready->find('=') + 1);
}

test::SluiceServer::Options OnRedis(const test::RedisServer& redis, std::string program = {}) {
  return {.rules = kRules,
          .redis_url = redis.url(),
          .flags = {},
          .environment = {"SLUICE_REDIS_TIMEOUT=900ms"},
          .program = std::move(program)};
}

// Every other round backwards, so that no case always has the same one before it.
void RunAll(std::vector<Case>& cases, const Settings& settings) {
  const auto duration =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(settings.seconds));
  for (int round = 0; round < settings.rounds; ++round) {
    for (Case& one : cases) one.RunOnce(duration);
    std::reverse(cases.begin(), cases.end());
  }
  if (settings.rounds % 2 == 1) std::reverse(cases.begin(), cases.end());
  std::printf("%-24s %10s %8s %14s %14s %8s %10s\n", "medians", "checks/s", "ratio",
              "server s/Mcheck", "redis s/Mcheck", "errors", "not store");
  for (const Case& one : cases) one.Print(cases.front());
}

void Run(const Settings& settings) {
  const test::RedisServer redis;
  test::Process noop({.argv = {NOOP_SERVER_PATH}, .environment = {}});
  test::SluiceServer sluiced(OnRedis(redis));
  ClosedLoop noop_load(ReadyAddress(noop), settings.load);
  ClosedLoop sluice_load(sluiced.grpc_address(), settings.load);
  const auto uniform = MakeRequests(kKeys);
  const auto one_key = MakeRequests(1);
  const pid_t server = sluiced.process().pid();
  std::vector<Case> cases{{"noop, 100,000 keys", noop_load, uniform, noop.pid(), redis.pid()},
                          {"sluiced, 100,000 keys", sluice_load, uniform, server, redis.pid()},
                          {"sluiced, one key", sluice_load, one_key, server, redis.pid()}};
  RunAll(cases, settings);
}

void RunVersus(const Settings& settings) {
  const test::RedisServer redis;
  test::SluiceServer other(OnRedis(redis, settings.versus));
  test::SluiceServer sluiced(OnRedis(redis));
  ClosedLoop other_load(other.grpc_address(), settings.load);
  ClosedLoop sluice_load(sluiced.grpc_address(), settings.load);
  const auto requests = MakeRequests(kKeys);
  std::vector<Case> cases{
      {"the other sluiced", other_load, requests, other.process().pid(), redis.pid()},
      {"sluiced", sluice_load, requests, sluiced.process().pid(), redis.pid()}};
  RunAll(cases, settings);
  cases.back().PrintCost(cases.front());
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  const auto settings = sluice::bench::ParseFlags(argc, argv);
  settings.versus.empty() ? sluice::bench::Run(settings) : sluice::bench::RunVersus(settings);
}
