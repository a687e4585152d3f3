// The calls of one io thread, and the handlers that serve them, kept for the next calls.
//
// Loop thread only, the destructor included; but `loop` and `methods` may be asked on any.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "net/loop.h"
#include "rpc/grpc/open_call.h"
#include "rpc/method.h"

namespace sluice::rpc::grpc_engine {

class LoopCalls {
 public:
  // Both must outlive it.
  LoopCalls(net::Loop& loop, const Methods& methods)
      : loop_(loop), methods_(methods), free_(methods.size()) {}

  net::Loop& loop() const { return loop_; }
  const Methods& methods() const { return methods_; }

  // A free call of a method, made if there is none.
  OpenCall& Take(std::size_t method);
  // `call` is free again.
  void Put(OpenCall& call) { free_[call.method()].push_back(&call); }

  // Tells the streams that the server is stopping, and each that starts from now on.
  void Drain();
  bool draining() const { return draining_; }

 private:
  net::Loop& loop_;
  const Methods& methods_;
  std::vector<std::unique_ptr<OpenCall>> all_;
  std::vector<std::vector<OpenCall*>> free_;  // by method
  bool draining_ = false;
};

}  // namespace sluice::rpc::grpc_engine
