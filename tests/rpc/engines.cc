#include "tests/rpc/engines.h"

#include "rpc/grpc/server.h"
#include "rpc/http2/server.h"

namespace sluice::test {

const std::vector<Engine>& Engines() {
  static const std::vector<Engine> engines{{"http2", rpc::http2::StartServer},
                                           {"grpc", rpc::grpc_engine::StartServer}};
  return engines;
}

}  // namespace sluice::test
