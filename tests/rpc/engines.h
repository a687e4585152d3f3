// The RPC engines, for tests that run on each of them.
#pragma once

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/io_threads.h"
#include "rpc/method.h"
#include "rpc/server.h"

namespace sluice::test {

struct Engine {
  std::string name;
  Result<std::unique_ptr<rpc::Server>> (*start)(net::IoThreads&, rpc::Methods,
                                                const rpc::ServerOptions&);
};

const std::vector<Engine>& Engines();

inline std::ostream& operator<<(std::ostream& out, const Engine& engine) {
  return out << engine.name;
}

}  // namespace sluice::test
