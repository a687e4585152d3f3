// A pool of reusable calls of one method on one loop, each with its handler. Grows to the highest
// number of concurrent calls.
//
// Loop thread only.
#pragma once

#include <memory>
#include <vector>

#include "rpc/http2/server_call.h"
#include "rpc/method.h"

namespace sluice::rpc::http2 {

class CallPool {
 public:
  // Both must outlive the pool.
  CallPool(Shard& shard, const Method& method) : shard_(shard), method_(method) {}

  const std::string& path() const { return method_.path; }

  ServerCall& Take();
  void Return(ServerCall& call) { free_.push_back(&call); }

 private:
  std::unique_ptr<ServerCall> Make();

  Shard& shard_;
  const Method& method_;
  std::vector<std::unique_ptr<ServerCall>> calls_;
  std::vector<ServerCall*> free_;
};

}  // namespace sluice::rpc::http2
