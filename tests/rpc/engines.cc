#include "tests/rpc/engines.h"

#include <utility>

#include "rpc/grpc/server.h"
#include "rpc/http2/server.h"

namespace sluice::test {

namespace {

Result<std::unique_ptr<rpc::Server>> StartHttp2(net::IoThreads& threads, rpc::Methods methods,
                                                const rpc::ServerOptions& options) {
  return rpc::http2::StartServer(threads, std::move(methods), options);
}

}  // namespace

const std::vector<Engine>& Engines() {
  static const std::vector<Engine> engines{
      {.name = "http2", .start = StartHttp2},
      {.name = "grpc", .start = rpc::grpc_engine::StartServer}};
  return engines;
}

}  // namespace sluice::test
