#include "load/stream_channel.h"

#include <fmt/format.h>

namespace sluice::load {
namespace {

// If this many bytes wait for the server's flow-control window, no further message is sent.
constexpr std::size_t kMaxUnsent = 64 * 1024;

}  // namespace

StreamChannel::StreamChannel(Shared& shared, std::unique_ptr<Http2Connection> connection,
                             std::uint32_t quota)
    : Channel(shared, std::move(connection), quota),
      stream_id_(connection_->Request(PathOf(shared.plan.rpc), *this)) {}

bool StreamChannel::IsFree() const { return end_.empty() && unsent() < kMaxUnsent; }

void StreamChannel::Send(SteadyTime start) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  ++in_flight_;
  slots_[slot] = shared_.recorder.Begin(start, shared_.plan.checks);
  shared_.writer.Append(slot, request_);
  connection_->Resume(stream_id_);
}

void StreamChannel::FailAll(const GrpcStatus& status) {
  for (Message& message : slots_) shared_.recorder.Fail(message, status);
  in_flight_ = 0;
}

void StreamChannel::OnMessage(std::string_view message) {
  if (!ReadResults(message, results_)) {
    return End({GrpcStatus::kInternal, "an answer is not a valid protobuf message"});
  }
  for (const CheckResult& result : results_) Record(result);
}

void StreamChannel::Record(const CheckResult& result) {
  const std::uint32_t slot = ParseRequestId(result.request_id);
  if (slot >= slots_.size() || slots_[slot].unanswered == 0) {
    return End({GrpcStatus::kInternal,
                fmt::format("a result with the unknown request_id \"{}\"", result.request_id)});
  }
  shared_.recorder.Record(slots_[slot], result);
  if (slots_[slot].unanswered > 0) return;
  free_.push_back(slot);
  --in_flight_;
}

void StreamChannel::OnStatus(const GrpcStatus& status) {
  End(status.code == GrpcStatus::kOk
          ? GrpcStatus{GrpcStatus::kUnavailable, "the server ended the stream"}
          : status);
}

// Only the first cause counts. The server may still answer checks that failed because of it, and
// such an answer calls End again.
void StreamChannel::End(const GrpcStatus& status) {
  if (!end_.empty()) return;
  end_ = fmt::format("{}: {}", CodeName(status.code), status.message);
  FailAll(status);
}

}  // namespace sluice::load
