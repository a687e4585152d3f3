#include "rpc/http2/shared_state.h"

#include "base/log.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Refusal::kCount)> kReasons = {
    "connections", "replaced",   "calls",  "unfinished_messages", "unsent_responses", "rapid_reset",
    "flood",       "incomplete", "stalled"};

}  // namespace

ServerMetrics::ServerMetrics(MetricsRegistry& registry)
    : connections(registry.GaugeFor("sluice_grpc_connections", "Open gRPC connections")),
      connections_total(registry.CounterFor("sluice_grpc_connections_total",
                                            "gRPC connections that were accepted")),
      open_calls(registry.GaugeFor("sluice_grpc_calls_open", "Open gRPC calls")) {
  for (std::size_t i = 0; i < refused_.size(); ++i) {
    refused_[i] = &registry.CounterFor("sluice_grpc_refused_total",
                                       "Refused or ended gRPC connections and calls, by reason",
                                       {{"reason", kReasons[i]}});
  }
}

void ServerMetrics::Count(Refusal refusal) {
  const auto reason = static_cast<std::size_t>(refusal);
  refused_[reason]->Increment();
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_log_.load(std::memory_order_relaxed);
  if (now < next || !next_log_.compare_exchange_strong(next, now + std::chrono::seconds(1))) return;
  spdlog::warn(
      "gRPC: a connection or call was refused or ended: {} (sluice_grpc_refused_total counts all)",
      kReasons[reason]);
}

}  // namespace sluice::rpc::http2
