// A pool of reusable calls of one method on one loop, each with its handler.
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

// A unary call has one request and one response, a stream call any number of messages in both
// directions. All arguments must outlive the call.
std::unique_ptr<ServerCall> MakeUnaryCall(LoopState& loop, ReusePool<ServerCall>& pool,
                                          const Method& method);
std::unique_ptr<ServerCall> MakeStreamCall(LoopState& loop, ReusePool<ServerCall>& pool,
                                           const Method& method);

class CallPool {
 public:
  // Both must outlive the pool.
  CallPool(LoopState& loop, const Method& method) : loop_(loop), method_(method) {}

  const Method& method() const { return method_; }

  ServerCall& Take() {
    return calls_.Take([this] {
      return (method_.unary ? MakeUnaryCall : MakeStreamCall)(loop_, calls_, method_);
    });
  }
  void Trim(std::size_t max) { calls_.Trim(max); }

 private:
  LoopState& loop_;
  const Method& method_;
  ReusePool<ServerCall> calls_;
};

}  // namespace sluice::rpc::http2
