// What a Redis server must be for its counts to be safe: it evicts nothing, its replicas follow,
// and its user may call what Sluice needs. Asked at every login and each ten seconds; the log has a
// line when one of these changes.
//
// Loop thread only: that of the one node that asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/metrics_registry.h"

struct redisReply;

namespace sluice::redis {

class Inspection {
 public:
  static constexpr std::chrono::seconds kEvery{10};

  // `name` is that of the server, for the log; `labels` are those of its metrics. `metrics` must
  // outlive this.
  Inspection(std::string name, MetricsRegistry& metrics, const MetricLabels& labels);

  // What to ask the server, as AppendCommand writes it.
  static std::string Command(bool clustered);

  // Its reply. One that says nothing changes nothing.
  void OnReply(const redisReply& reply);

  // The server is not asked any more.
  void Forget();

 private:
  // Replicas report every second.
  static constexpr std::int64_t kLagging = 3;  // seconds

  void SeePolicy(std::string_view policy);
  void SeeLag(std::int64_t seconds, std::string_view bytes);
  void SeeRefused(const std::string& commands, int count);

  const std::string name_;
  Gauge& evicts_;
  Gauge& lag_;
  Gauge& refused_;
  // As told last.
  std::string told_policy_;
  bool told_lag_ = false;
  std::string told_refused_;
};

}  // namespace sluice::redis
