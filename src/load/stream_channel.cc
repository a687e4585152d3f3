#include "load/stream_channel.h"

#include <fmt/format.h>

namespace sluice::load {
namespace {

// What the server has no window for waits here; with so much of it, the next messages wait unsent.
constexpr std::size_t kMaxUnsent = 64 * 1024;

}  // namespace

StreamChannel::StreamChannel(std::unique_ptr<Http2Connection> connection, std::uint32_t quota,
                             const Plan& plan, RequestWriter& writer, Recorder& recorder)
    : Channel(std::move(connection), quota, plan, writer, recorder),
      stream_id_(connection_->Request(PathOf(plan.rpc), *this)) {}

bool StreamChannel::IsFree() const { return end_.empty() && unsent() < kMaxUnsent; }

void StreamChannel::Send(SteadyTime start) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  ++under_way_;
  slots_[slot] = recorder_.Begin(start, plan_.checks);
  writer_.Append(slot, request_);
  connection_->Resume(stream_id_);
}

void StreamChannel::FailAll(const GrpcStatus& status) {
  for (Message& message : slots_) recorder_.Fail(message, status);
  under_way_ = 0;
}

void StreamChannel::OnMessage(std::string_view message) {
  if (!ReadResults(message, results_)) {
    return End({kInternal, "an answer is not a valid protobuf message"});
  }
  for (const CheckResult& result : results_) Record(result);
}

void StreamChannel::Record(const CheckResult& result) {
  const std::uint32_t slot = ParseRequestId(result.request_id);
  if (slot >= slots_.size() || slots_[slot].unanswered == 0) {
    return End({kInternal,
                fmt::format("a result with the request_id \"{}\" of no check", result.request_id)});
  }
  recorder_.Record(slots_[slot], result);
  if (slots_[slot].unanswered > 0) return;
  free_.push_back(slot);
  --under_way_;
}

void StreamChannel::OnStatus(const GrpcStatus& status) {
  End(status.code == kOk ? GrpcStatus{kUnavailable, "the server ended the stream"} : status);
}

void StreamChannel::End(const GrpcStatus& status) {
  end_ = fmt::format("{}: {}", CodeName(status.code), status.message);
  FailAll(status);
}

}  // namespace sluice::load
