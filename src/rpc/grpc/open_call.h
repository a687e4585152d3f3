// A call on its io thread: a handler, what it sees of the call it serves, and the way of its
// answers to the reactor. It serves one call after the other.
//
// Loop thread only.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "net/peer.h"
#include "rpc/handler.h"

namespace sluice::rpc::grpc_engine {

class LoopCalls;
class Reactor;

// It has three states: free (in LoopCalls' list), attached to a reactor, or detached from one whose
// caller is gone while the handler has not called Finish yet.
class OpenCall : public Call, public Responder {
 public:
  OpenCall(LoopCalls& owner, std::size_t method) : owner_(owner), method_(method) {}

  // Which of LoopCalls' methods this is a call of.
  std::size_t method() const { return method_; }

  // From free to attached. `reactor` must live until Finish, or until OnCancel returns.
  void Attach(Reactor& reactor) { reactor_ = &reactor; }

  // What the reactor tells while it is attached. The call may be free when these return.
  virtual void OnStart() {}
  virtual void OnMessage(const ::grpc::ByteBuffer& message) = 0;
  virtual void OnHalfClose() {}
  virtual void OnWritable() {}
  // Tells the handler, and detaches it if it does not finish at once.
  void OnCancel();
  // Tells the handler that the server is stopping, if the call is attached.
  virtual void OnDrain() {}

  SteadyTime deadline() const override;
  SteadyTime received() const override;
  std::optional<std::string_view> Metadata(std::string_view name) const override;
  const net::Peer& peer() const override;

  void Finish(std::string_view response, std::function<void()> on_lost) override;
  void Finish(const Status& status) override;
  void Send(std::string_view message) override;
  std::size_t unsent_bytes() const override;
  void SetReading(bool /*reading*/) override {}

 protected:
  // Null unless attached.
  Reactor* reactor() const { return reactor_; }

  // From attached or detached to free.
  virtual void Release();

 private:
  virtual void CancelHandler() = 0;

  LoopCalls& owner_;
  const std::size_t method_;
  Reactor* reactor_ = nullptr;
  mutable std::optional<net::Peer> peer_;  // made when it is first asked for
};

class UnaryCall final : public OpenCall {
 public:
  UnaryCall(LoopCalls& owner, std::size_t method, std::unique_ptr<UnaryHandler> handler);
  void OnMessage(const ::grpc::ByteBuffer& message) override;

 private:
  void CancelHandler() override { handler_->OnCancel(); }
  void Release() override;

  const std::unique_ptr<UnaryHandler> handler_;
  ::grpc::Slice request_;
};

class StreamCall final : public OpenCall {
 public:
  StreamCall(LoopCalls& owner, std::size_t method, std::unique_ptr<StreamHandler> handler);
  void OnStart() override;
  void OnMessage(const ::grpc::ByteBuffer& message) override;
  void OnHalfClose() override { handler_->OnHalfClose(); }
  void OnWritable() override { handler_->OnWritable(); }
  void OnDrain() override;
  void SetReading(bool reading) override;

 private:
  void CancelHandler() override { handler_->OnCancel(); }

  const std::unique_ptr<StreamHandler> handler_;
  bool reading_ = true;
};

}  // namespace sluice::rpc::grpc_engine
