// Calls, each with its handler, and a pool of them for one method on one loop.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <memory>

#include "rpc/http2/loop_state.h"
#include "rpc/http2/reuse_pool.h"
#include "rpc/http2/server_call.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

// A call with one request and one response. The handler is called when the request is complete.
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

  void Abandon();

  const Method& method_;
  std::unique_ptr<UnaryHandler> handler_;  // null until the first complete request
  State state_ = State::kFree;
  std::string_view request_;
};

// A call with any number of messages in both directions.
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
  void Abandon();

  const std::unique_ptr<StreamHandler> handler_;
  net::Timer defer_timer_;
  State state_ = State::kFree;
  bool delivering_ = false;  // Deliver is on the stack and releases the call if it ends
};

// Reusable calls.
class CallPool {
 public:
  // Both must outlive the pool.
  CallPool(LoopState& loop, const Method& method) : loop_(loop), method_(method) {}

  const Method& method() const { return method_; }

  ServerCall& Take() {
    return calls_.Take([this]() -> std::unique_ptr<ServerCall> {
      if (method_.unary) return std::make_unique<UnaryCall>(loop_, calls_, method_);
      return std::make_unique<StreamCall>(loop_, calls_, method_);
    });
  }
  void Trim(std::size_t max) { calls_.Trim(max); }

 private:
  LoopState& loop_;
  const Method& method_;
  ReusePool<ServerCall> calls_;
};

}  // namespace sluice::rpc::http2
