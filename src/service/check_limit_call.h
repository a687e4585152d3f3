// One CheckLimit RPC at a time, from the request on the wire to the answer on it; then the next.
// Everything it needs but gRPC's own context is kept from RPC to RPC.
//
// AwaitRequest and Serve are called on the queue's thread; the answer may come on another. The
// atomic state hands the object from one to the other.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>

#include <grpcpp/grpcpp.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include "limiter/check_call.h"

namespace sluice {

// CheckLimit as bytes; the generated defaults answer UNIMPLEMENTED to the RPCs not built yet.
using CheckService = v1::RateLimiter::WithRawMethod_CheckLimit<v1::RateLimiter::Service>;

class CheckLimitCall final : private CheckCall {
 public:
  // `service`, `queue` and `limiter` must outlive the call.
  CheckLimitCall(CheckService& service, grpc::ServerCompletionQueue& queue, Limiter& limiter)
      : CheckCall(limiter), service_(service), queue_(queue) {}

  // Asks gRPC for the next RPC. The queue then hands this object out once, with ok = false if no
  // RPC will come any more.
  void AwaitRequest();

  // Whether the queue hands this object out because its RPC is over.
  bool finished() const { return state_.load(std::memory_order_acquire) == State::kFinished; }

  // Decides the RPC that came. The queue hands this object out once more when it is over.
  void Serve();

 private:
  enum class State { kAwaiting, kFinished };

  void OnAnswer(const Result<CheckAnswer>& answer) override;
  void Finish(const grpc::ByteBuffer& response);
  void FinishWithError(const Error& error);
  std::string_view RequestBytes();

  CheckService& service_;
  grpc::ServerCompletionQueue& queue_;
  std::atomic<State> state_ = State::kAwaiting;

  // Of one RPC.
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> responder_;
  grpc::ByteBuffer request_buffer_;
  grpc::Slice request_bytes_;  // what `request` and `request_id_` view
  std::string_view request_id_;
  v1::CheckLimitResponse response_;
};

}  // namespace sluice
