#include "rpc/grpc/open_call.h"

#include <utility>

#include "base/clock.h"
#include "rpc/grpc/loop_calls.h"
#include "rpc/grpc/peer.h"
#include "rpc/grpc/reactor.h"

namespace sluice::rpc::grpc_engine {
namespace {

// The bytes of `buffer` as one view, valid as long as `piece`.
std::string_view InOnePiece(const ::grpc::ByteBuffer& buffer, ::grpc::Slice& piece) {
  if (!buffer.TrySingleSlice(&piece).ok() && !buffer.DumpToSingleSlice(&piece).ok()) {
    piece = ::grpc::Slice();
  }
  return {reinterpret_cast<const char*>(piece.begin()), piece.size()};
}

}  // namespace

SteadyTime OpenCall::deadline() const { return reactor_->deadline(); }

SteadyTime OpenCall::received() const { return reactor_->received(); }

std::optional<std::string_view> OpenCall::Metadata(std::string_view name) const {
  const auto& metadata = reactor_->context().client_metadata();
  const auto [first, last] = metadata.equal_range({name.data(), name.size()});
  if (first == last || std::next(first) != last) return std::nullopt;
  return std::string_view(first->second.data(), first->second.size());
}

const net::Peer& OpenCall::peer() const {
  if (!peer_) peer_ = PeerOf(reactor_->context());
  return *peer_;
}

void OpenCall::OnCancel() {
  const Reactor* const before = reactor_;
  CancelHandler();
  if (reactor_ == before) reactor_ = nullptr;
}

void OpenCall::Finish(std::string_view response, std::function<void()> on_lost) {
  if (reactor_ != nullptr) {
    reactor_->Finish(response, std::move(on_lost));
  } else if (on_lost) {
    on_lost();
  }
  Release();
}

void OpenCall::Finish(const Status& status) {
  if (reactor_ != nullptr) reactor_->Finish(status);
  Release();
}

void OpenCall::Send(std::string_view message) {
  if (reactor_ != nullptr) reactor_->Send(message);
}

std::size_t OpenCall::unsent_bytes() const {
  return reactor_ != nullptr ? reactor_->unsent_bytes() : 0;
}

void OpenCall::Release() {
  reactor_ = nullptr;
  peer_.reset();
  owner_.Put(*this);
}

UnaryCall::UnaryCall(LoopCalls& owner, std::size_t method, std::unique_ptr<UnaryHandler> handler)
    : OpenCall(owner, method), handler_(std::move(handler)) {
  handler_->Attach(*this);
}

void UnaryCall::OnMessage(const ::grpc::ByteBuffer& message) {
  handler_->Serve(*this, InOnePiece(message, request_));
}

void UnaryCall::Release() {
  request_ = ::grpc::Slice();
  OpenCall::Release();
}

StreamCall::StreamCall(LoopCalls& owner, std::size_t method, std::unique_ptr<StreamHandler> handler)
    : OpenCall(owner, method), handler_(std::move(handler)) {
  handler_->Attach(*this);
}

void StreamCall::OnStart() {
  reading_ = true;
  Reactor* const started = reactor();
  handler_->OnStart(*this);
  if (reactor() == started && reading_) started->Read();
}

void StreamCall::OnMessage(const ::grpc::ByteBuffer& message) {
  Reactor* const from = reactor();
  ::grpc::Slice piece;
  handler_->OnMessage(InOnePiece(message, piece));
  if (reactor() == from && reading_) from->Read();
}

void StreamCall::OnDrain() {
  if (reactor() != nullptr) handler_->OnDrain();
}

void StreamCall::SetReading(bool reading) {
  if (reactor() == nullptr) return;
  reading_ = reading;
  if (reading) reactor()->Read();
}

}  // namespace sluice::rpc::grpc_engine
