#include "tests/rpc/engines.h"

#include "rpc/grpc/server.h"

namespace sluice::test {

const std::vector<Engine>& Engines() {
  static const std::vector<Engine> engines{{"grpc", rpc::grpc_engine::StartServer}};
  return engines;
}

}  // namespace sluice::test
