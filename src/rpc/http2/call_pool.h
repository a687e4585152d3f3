// A pool of reusable calls of one method on one loop, each with its handler.
//
// Loop thread only.
#pragma once

#include <memory>
#include <string>

#include "rpc/http2/reuse_pool.h"
#include "rpc/http2/server_call.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

class CallPool {
 public:
  // Both must outlive the pool.
  CallPool(Shard& shard, const Method& method) : shard_(shard), method_(method) {}

  const Method& method() const { return method_; }

  ServerCall& Take();
  void Return(ServerCall& call) { calls_.Return(call); }
  void Trim(std::size_t max) { calls_.Trim(max); }
  std::size_t size() const { return calls_.size(); }

 private:
  std::unique_ptr<ServerCall> Make();

  Shard& shard_;
  const Method& method_;
  ReusePool<ServerCall> calls_;
};

}  // namespace sluice::rpc::http2
