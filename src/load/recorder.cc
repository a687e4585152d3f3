#include "load/recorder.h"

#include <algorithm>
#include <chrono>

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

Message Recorder::Begin(SteadyTime start, std::uint32_t checks) const {
  return {.start = start, .unanswered = checks, .counted = start >= measure_from_};
}

void Recorder::Record(Message& message, const CheckResult& result) {
  --message.unanswered;
  if (!result.is_error && (result.decision == kAllowed || result.decision == kDenied)) {
    RecordDecision(message, result);
  } else {
    ++progress_.failed;
    if (message.counted) {
      stats_.Fail(result.is_error ? GrpcStatus{result.code, std::string(result.message)}
                                  : GrpcStatus{GrpcStatus::kInternal, "the answer has no decision"},
                  1);
    }
  }
  if (message.unanswered == 0) Finish(message);
}

void Recorder::RecordDecision(Message& message, const CheckResult& result) {
  const bool allowed = result.decision == kAllowed;
  message.decided = true;
  ++(allowed ? progress_.allowed : progress_.denied);
  message.wait = result.wait.value_or(Duration::zero());
  if (!message.counted) return;
  if (result.wait) {
    stats_.waits.Add(*result.wait);
    stats_.waited += *result.wait;
  }
  ++(allowed ? stats_.allowed : stats_.denied);
  const auto source = static_cast<std::size_t>(result.source);
  ++stats_.sources[source < stats_.sources.size() ? source : 0];
}

void Recorder::Fail(Message& message, const GrpcStatus& status) {
  if (message.unanswered == 0) return;
  progress_.failed += message.unanswered;
  if (message.counted) stats_.Fail(status, message.unanswered);
  message.unanswered = 0;
  Finish(message);
}

void Recorder::Finish(const Message& message) {
  if (!message.counted) return;
  if (message.decided) {
    stats_.latencies.Add(std::chrono::duration_cast<Duration>(now_ - message.start));
  }
  ExtendTo(now_);
}

void Recorder::ExtendTo(SteadyTime end) {
  stats_.elapsed =
      std::max(stats_.elapsed, std::chrono::duration_cast<Duration>(end - measure_from_));
}

}  // namespace sluice::load
