#include "load/load_stats.h"

#include <algorithm>

namespace sluice::load {

double LoadStats::checks_per_second() const {
  if (elapsed <= Duration::zero()) return 0;
  return static_cast<double>(answered()) / std::chrono::duration<double>(elapsed).count();
}

double LoadStats::cpu_us_per_check() const {
  return checks() == 0 ? 0 : cpu.count() * 1e6 / static_cast<double>(checks());
}

void LoadStats::Fail(const GrpcStatus& status, std::uint64_t checks) {
  failed += checks;
  Failures& failures = errors[status.code];
  if (failures.count == 0) failures.first = status.message;
  failures.count += checks;
}

void LoadStats::Merge(const LoadStats& other) {
  allowed += other.allowed;
  denied += other.denied;
  for (const auto& [code, failures] : other.errors) Fail({code, failures.first}, failures.count);
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i] += other.sources[i];
  latencies.Merge(other.latencies);
  waits.Merge(other.waits);
  waited += other.waited;
  elapsed = std::max(elapsed, other.elapsed);
  cpu += other.cpu;
  messages += other.messages;
  late += other.late;
  latest = std::max(latest, other.latest);
  if (lost.empty()) lost = other.lost;
}

}  // namespace sluice::load
