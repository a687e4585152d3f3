// Checks whether counts are safe in a Redis node: it evicts nothing, its replicas do not lag, and
// its ACL permits all commands that Sluice needs. The node is queried after every login and every
// ten seconds. Each change is logged.
//
// Loop thread only: the thread of the one Node that sends the query.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "metrics/metrics_registry.h"

struct redisReply;

namespace sluice::redis {

class Connection;

class Inspection {
 public:
  static constexpr std::chrono::seconds kEvery{10};

  // `name` is the node's name in the log. `labels` are the labels of the metrics. `metrics` must
  // outlive this.
  Inspection(std::string name, MetricsRegistry& metrics, const MetricLabels& labels);
  // Hides the metrics, because the node is no longer queried.
  ~Inspection();
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;

  // Sends the query.
  static void Ask(Connection& connection, bool clustered);

  // The commands that Sluice needs: for the check script, the reports of a fleet's members, and the
  // query. In lower case, with spaces between them.
  static std::string NeededCommands(bool clustered);

  // Handles the reply. Parts that are missing or unreadable are ignored.
  void OnReply(const redisReply& reply);

 private:
  static constexpr std::string_view kSafePolicy = "noeviction";
  // Replicas report every second.
  static constexpr std::int64_t kLagging = 3;  // seconds

  void SeePolicy(std::string_view policy);
  void RecordLag(std::int64_t seconds, std::int64_t bytes);
  void SeeRefused(const std::string& commands, int count);

  const std::string name_;
  Gauge& evicts_;
  Gauge& lag_;
  Gauge& refused_;
  // The state logged last.
  std::string told_policy_{kSafePolicy};
  bool told_lag_ = false;
  std::string told_refused_;
};

}  // namespace sluice::redis
