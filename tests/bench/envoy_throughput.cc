// Compares the calls a second of ShouldRateLimit and CheckLimit, on one sluiced with a real Redis.
// In each round, the same load generator makes each kind of call for some seconds.
//
//   build/release/bench/envoy_throughput [--rounds 5] [--seconds 2] [--connections 8] [--in-flight
//   32]
//
// Prints the median of each kind of call, and its ratio to the median of CheckLimit. Then stops
// Redis, and prints the calls a second with one descriptor and the 99.9th percentile of their time
// in the server. Load generator, server and Redis share the machine, so run nothing else on it.
#include <envoy/service/ratelimit/v3/rls.pb.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/grpc_call.h"
#include "client/http2_connection.h"
#include "net/io_threads.h"
#include "tests/bench/number_flags.h"
#include "tests/bench/server_latency.h"
#include "tests/support/redis_server.h"
#include "tests/support/require.h"
#include "tests/support/sluice_server.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using envoy::service::ratelimit::v3::RateLimitRequest;

constexpr char kOwnRules[] = R"yaml(
domain: own
rules:
  - name: user
    per: [user]
    limits: [{algorithm: fixed_window, limit: 1000000000, window: 1d, align: clock}]
)yaml";
constexpr char kEnvoyRules[] = R"yaml(
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: day, requests_per_unit: 1000000000}}
  - {key: path, rate_limit: {unit: day, requests_per_unit: 1000000000}}
)yaml";

struct Settings {
  int rounds = 5;
  double seconds = 2;
  int connections = 8;
  int in_flight = 32;  // calls in flight on a connection
};

// A kind of call, and its requests.
struct Kind {
  const char* name;
  const char* path;
  std::function<std::string(std::uint32_t user)> request;
};

std::string ShouldRateLimit(std::initializer_list<std::pair<const char*, std::string>> entries) {
  RateLimitRequest request;
  request.set_domain("shop");
  for (const auto& [key, value] : entries) {
    auto& entry = *request.add_descriptors()->add_entries();
    entry.set_key(key);
    entry.set_value(value);
  }
  return request.SerializeAsString();
}

const std::vector<Kind>& Kinds() {
  static constexpr char kEnvoyPath[] =
      "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
  static const std::vector<Kind> kinds{
      {"CheckLimit", "/sluice.v1.RateLimiter/CheckLimit",
       [](std::uint32_t user) {
         v1::CheckLimitRequest request;
         request.set_domain("own");
         (*request.mutable_attributes())["user"] = std::to_string(user);
         return request.SerializeAsString();
       }},
      {"ShouldRateLimit, one descriptor", kEnvoyPath,
       [](std::uint32_t user) {
         return ShouldRateLimit({{"user", std::to_string(user)}});
       }},
      {"two descriptors, both per user", kEnvoyPath,
       [](std::uint32_t user) {
         return ShouldRateLimit({{"user", std::to_string(user)}, {"path", std::to_string(user)}});
       }},
      {"two descriptors, one shared by all", kEnvoyPath,
       [](std::uint32_t user) {
         return ShouldRateLimit({{"user", std::to_string(user)}, {"path", "/"}});
       }},
  };
  return kinds;
}

// A connection with `in_flight` calls at any time. Loop thread only.
class Caller {
 public:
  Caller(net::Loop& loop, const Target& target, const Kind& kind, int in_flight,
         std::atomic<bool>& stopping, std::atomic<std::uint64_t>& answered)
      : kind_(kind), stopping_(stopping), answered_(answered) {
    for (int i = 0; i < in_flight; ++i) calls_.push_back(std::make_unique<Call>(*this));
    connection_ = std::make_unique<Http2Connection>(loop, target, nullptr, std::chrono::seconds(1),
                                                    [this, &loop] {
                                                      if (started_ || !connection_->settled())
                                                        return;
                                                      started_ = true;
                                                      loop.Post([this] {
                                                        for (const auto& call : calls_)
                                                          call->Start();
                                                      });
                                                    });
  }

 private:
  class Call final : public GrpcCall {
   public:
    explicit Call(Caller& caller) : caller_(caller) { request_complete_ = true; }

    void Start() {
      Restart();
      const std::string message = caller_.kind_.request(caller_.NextUser());
      request_ = GrpcFrame(message);
      caller_.connection_->Request(caller_.kind_.path, *this);
    }

   private:
    void OnMessage(std::string_view) override {}
    void OnStatus(const GrpcStatus& status) override {
      Require(status.code == GrpcStatus::kOk, status.message);
      caller_.answered_.fetch_add(1, std::memory_order_relaxed);
      if (!caller_.stopping_.load(std::memory_order_relaxed)) {
        caller_.connection_->loop().Post([this] { Start(); });
      }
    }

    Caller& caller_;
  };

  std::uint32_t NextUser() { return user_ = user_ * 1664525 + 1013904223; }

  const Kind& kind_;
  std::atomic<bool>& stopping_;
  std::atomic<std::uint64_t>& answered_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::unique_ptr<Http2Connection> connection_;
  bool started_ = false;
  std::uint32_t user_ = 1;
};

// The calls that the server answers in a second.
double Measure(net::IoThreads& io, const Address& address, const Kind& kind,
               const Settings& settings) {
  const Target target{.address = address};
  std::atomic<bool> stopping = false;
  std::atomic<std::uint64_t> answered = 0;
  std::vector<std::unique_ptr<Caller>> callers;
  io.RunOn(0, [&](net::Loop& loop) {
    for (int i = 0; i < settings.connections; ++i) {
      callers.push_back(
          std::make_unique<Caller>(loop, target, kind, settings.in_flight, stopping, answered));
    }
  });
  Require(WaitUntil(std::chrono::seconds(30), [&] { return answered > 1'000; }), "no answers");
  const SteadyTime begin = SteadyNow();
  const std::uint64_t before = answered;
  const auto end = begin + std::chrono::duration_cast<SteadyTime::duration>(
                               std::chrono::duration<double>(settings.seconds));
  WaitUntil(std::chrono::hours(1), [&] { return SteadyNow() >= end; });
  const double count = static_cast<double>(answered - before);
  const std::chrono::duration<double> passed = SteadyNow() - begin;
  io.RunOn(0, [&](net::Loop&) { stopping = true; });
  io.RunOn(0, [&](net::Loop&) { callers.clear(); });  // after all tasks posted earlier
  return count / passed.count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Run(const Settings& settings) {
  const TempDir rules;
  rules.Write("shop.yaml", kEnvoyRules);
  RedisServer redis;
  const SluiceServer server({.rules = kOwnRules,
                             .redis_url = redis.url(),
                             .flags = {"--envoy-rules", rules.path().string()},
                             .environment = {}});
  net::IoThreads io(1);
  io.Start();
  const Address address = Address::Parse(server.grpc_address()).value();
  std::vector<std::vector<double>> rates(Kinds().size());
  for (int round = 0; round < settings.rounds; ++round) {
    for (std::size_t i = 0; i < rates.size(); ++i) {
      rates[i].push_back(Measure(io, address, Kinds()[i], settings));
    }
  }
  for (std::size_t i = 0; i < rates.size(); ++i) {
    fmt::print("{:34} {:8.0f} calls/s  {:.2f}\n", Kinds()[i].name, Median(rates[i]),
               Median(rates[i]) / Median(rates[0]));
  }
  const Buckets before = ReadBuckets(server);
  redis.Pause();
  const double stopped = Measure(io, address, Kinds()[1], settings);
  const Duration slowest = QuantileBetween(before, ReadBuckets(server), 0.999);
  redis.Resume();
  fmt::print("one descriptor, Redis stopped     {:9.0f} calls/s, p99.9 at most {} us\n", stopped,
             slowest.count());
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) {
  sluice::test::NumberFlags flags(argc, argv);
  sluice::test::Settings settings;
  flags.Read("--rounds", settings.rounds);
  flags.Read("--seconds", settings.seconds);
  flags.Read("--connections", settings.connections);
  flags.Read("--in-flight", settings.in_flight);
  flags.RequireNoOthers();
  sluice::test::Run(settings);
  return 0;
}
