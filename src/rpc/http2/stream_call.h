// A call with any number of messages in both directions.
//
// Loop thread only.
#pragma once

#include <memory>

#include "rpc/http2/server_call.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

class StreamCall final : public ServerCall, public StreamResponder {
 public:
  StreamCall(LoopState& loop, ReusePool<ServerCall>& pool, const Method& method);

  void Begin(CallStream& stream) override;
  void OnData(std::string_view bytes) override;
  void OnRequestEnd() override;
  void Detach() override;
  void OnDrain() override;
  void OnWritable() override;
  void OnResumed() override;
  void Fail(const Status& status) override;
  bool is_stream() const override { return true; }

  // StreamResponder, for the handler.
  void Finish(const Status& status) override;
  void Send(std::string_view message) override;
  std::size_t unsent_bytes() const override;
  void SetReading(bool reading) override;

 private:
  enum class State : std::uint8_t {
    kFree,
    kOpen,        // messages can arrive
    kEnded,       // the request has ended; OnHalfClose is still to be called
    kHalfClosed,  // OnHalfClose was called
    kAbandoned,   // the caller is gone; the handler has not finished
  };

  // Delivers messages, then OnHalfClose at the end of the request.
  void Deliver();
  bool DeliverOne();
  bool Defer();
  bool served() const { return state_ != State::kFree && state_ != State::kAbandoned; }
  void OnDeadline() override;
  void Abandon();

  const std::unique_ptr<StreamHandler> handler_;
  net::Timer defer_timer_;
  State state_ = State::kFree;
  bool delivering_ = false;  // Deliver is on the stack and releases the call if it ends
};

}  // namespace sluice::rpc::http2
