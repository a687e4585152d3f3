// A call on its io thread: gives its handler the Call, and sends the handler's responses to the
// reactor. Reused for one call after another.
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

// Has three states: free (in LoopCalls' free list), attached to a reactor, or detached (the call is
// canceled, but the handler has not called Finish yet).
class OpenCall : public Call, public Responder {
 public:
  OpenCall(LoopCalls& owner, std::size_t method) : owner_(owner), method_(method) {}

  // The index of its method in LoopCalls::methods().
  std::size_t method() const { return method_; }

  // Changes from free to attached. `reactor` must live until Finish, or until OnCancel returns.
  void Attach(Reactor& reactor) { reactor_ = &reactor; }

  // Events from the attached reactor. The call may be free when these return.
  virtual void OnStart() {}
  virtual void OnMessage(const ::grpc::ByteBuffer& message) = 0;
  virtual void OnHalfClose() {}
  virtual void OnWritable() {}
  // Cancels the handler, and detaches the call if the handler does not finish at once.
  void OnCancel();
  // Notifies the handler that the server is stopping, if the call is attached.
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

  // Changes from attached or detached to free.
  virtual void Release();

 private:
  virtual void CancelHandler() = 0;

  LoopCalls& owner_;
  const std::size_t method_;
  Reactor* reactor_ = nullptr;
  mutable std::optional<net::Peer> peer_;  // cached by the first call of peer()
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
