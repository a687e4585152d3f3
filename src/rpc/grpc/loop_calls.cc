#include "rpc/grpc/loop_calls.h"

namespace sluice::rpc::grpc_engine {

OpenCall& LoopCalls::Take(std::size_t method) {
  auto& free = free_[method];
  if (!free.empty()) {
    OpenCall& call = *free.back();
    free.pop_back();
    return call;
  }
  const Method& made = methods_[method];
  if (made.stream) {
    all_.push_back(std::make_unique<StreamCall>(*this, method, made.stream(loop_)));
  } else {
    all_.push_back(std::make_unique<UnaryCall>(*this, method, made.unary(loop_)));
  }
  return *all_.back();
}

void LoopCalls::Drain() {
  draining_ = true;
  for (const auto& call : all_) call->OnDrain();
}

}  // namespace sluice::rpc::grpc_engine
