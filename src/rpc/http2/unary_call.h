// A call with one request and one response. The handler is called when the request is complete.
//
// Loop thread only.
#pragma once

#include <memory>

#include "rpc/http2/server_call.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

class UnaryCall final : public ServerCall, public UnaryResponder {
 public:
  // `method` must outlive the call.
  UnaryCall(LoopState& loop, ReusePool<ServerCall>& pool, const Method& method)
      : ServerCall(loop, pool), method_(method) {}

  void Begin(CallStream& stream) override;
  void OnData(std::string_view bytes) override;
  void OnRequestEnd() override;
  void Detach() override;
  void Fail(const Status& status) override;
  bool is_stream() const override { return false; }

  // UnaryResponder, for the handler.
  void Finish(std::string_view response, std::function<void()> on_lost) override;
  void Finish(const Status& status) override;

 private:
  enum class State : std::uint8_t {
    kFree,
    kReceiving,  // the message is not complete
    kReceived,   // the message is complete, the request has not ended
    kServing,    // the handler is working
    kAbandoned,  // the handler is working, but the caller is gone
  };

  void OnDeadline() override;
  void Abandon();

  const Method& method_;
  std::unique_ptr<UnaryHandler> handler_;  // null until the first complete request
  State state_ = State::kFree;
  std::string_view request_;
};

}  // namespace sluice::rpc::http2
