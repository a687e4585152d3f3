#include "rpc/http2/call_pool.h"

#include "rpc/http2/shard.h"
#include "rpc/http2/stream_call.h"
#include "rpc/http2/unary_call.h"

namespace sluice::rpc::http2 {

ServerCall& CallPool::Take() {
  return calls_.Take([this] { return Make(); });
}

std::unique_ptr<ServerCall> CallPool::Make() {
  if (method_.unary) return std::make_unique<UnaryCall>(shard_, *this, method_);
  return std::make_unique<StreamCall>(shard_, *this, method_.stream(shard_.loop()));
}

}  // namespace sluice::rpc::http2
