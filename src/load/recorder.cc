#include "load/recorder.h"

#include <algorithm>
#include <chrono>

namespace sluice::load {

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
