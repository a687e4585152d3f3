// Admin.Watch: sends to each watcher what the server did in each second. Each frame is made once
// for all watchers, on the worker's thread, from the metrics. While nobody watches, no metrics are
// read, and keys are counted only if the setting top_keys is true.
//
// Thread-safe. Must outlive the servers that use its methods. Stop `worker` before these servers
// are destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "admin/admin_access.h"
#include "base/clock.h"
#include "base/worker.h"
#include "limiter/limiter.h"
#include "metrics/metrics_registry.h"
#include "rpc/method.h"

namespace sluice {

class WatchService {
 public:
  static constexpr std::size_t kMaxRules = 1'000;
  static constexpr std::size_t kMaxKeys = 100;
  // The maximum number of watchers: fewer than the connections of an admin listener, so that some
  // connections remain for other calls.
  static constexpr int kMaxWatchers = 12;
  // How long keys are counted before the counts restart at zero.
  static constexpr std::chrono::minutes kKeysPeriod{10};

  struct Options {
    bool top_keys = false;   // counts keys even while nobody watches
    bool show_keys = false;  // also sends the keys themselves
  };

  // All must outlive the service.
  struct Dependencies {
    Limiter& limiter;
    MetricsRegistry& metrics;
    Worker& worker;
  };
  WatchService(const Dependencies& dependencies, const Options& options);

  // Adds Watch for callers whom `access` admits.
  void AddTo(rpc::Methods& methods, AdminAccess access);

  // If the counts of keys are older than kKeysPeriod, restarts them. If nobody watches and top_keys
  // is false, stops counting. Called from time to time on the worker's thread.
  void TidyKeys();

 private:
  class Handler;
  using Frame = std::shared_ptr<const std::string>;
  using Second = std::chrono::time_point<std::chrono::steady_clock, std::chrono::seconds>;

  // The values of counters and histograms at the end of a second.
  struct Snapshot {
    SteadyTime at;
    std::unordered_map<const MetricLabels*, double> checks;
    Histogram::Snapshot check_latency, store_latency;
    double failures = 0;
  };

  // On the worker's thread. Null if no snapshot was taken before.
  Frame FrameOfThisSecond();
  Frame MakeFrame(const Snapshot& before, const Snapshot& now) const;
  Snapshot TakeSnapshot() const;
  double SumOf(std::string_view metric) const;

  const Dependencies uses_;
  const Options options_;
  std::atomic<int> watchers_{0};

  // Used by the worker's thread only.
  std::optional<Snapshot> last_;  // while somebody watches
  Second second_;                 // of frame_
  Frame frame_;
  bool counts_keys_ = false;
  SteadyTime keys_begun_;
  Time keys_since_;
};

}  // namespace sluice
