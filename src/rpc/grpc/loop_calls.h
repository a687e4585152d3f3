// The calls of one io thread with their handlers, which are reused for later calls.
//
// Loop thread only, including the destructor. `loop` and `methods` are thread-safe.
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
  // Both must outlive this object.
  LoopCalls(net::Loop& loop, const Methods& methods)
      : loop_(loop), methods_(methods), free_(methods.size()) {}

  net::Loop& loop() const { return loop_; }
  const Methods& methods() const { return methods_; }

  // Takes a free call of a method, or creates one.
  OpenCall& Take(std::size_t method);
  // Returns `call` to the free list.
  void Put(OpenCall& call) { free_[call.method()].push_back(&call); }

  // Notifies open and future streams that the server is stopping.
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
