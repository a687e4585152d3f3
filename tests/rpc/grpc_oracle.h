// gRPC's own C++ server, with the handlers of rpc/handler.h. Tests compare its answers with our
// server's.
//
// The constructor and the destructor are called by one owner, not on an io thread.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "base/address.h"
#include "base/mutex.h"
#include "net/io_threads.h"
#include "rpc/method.h"

namespace sluice::test {

// Listens on a free port of the loopback. Handlers run on the first io thread and are not reused.
class GrpcOracle final : private grpc::CallbackGenericService {
 public:
  // `threads` must run until the oracle is destroyed.
  GrpcOracle(net::IoThreads& threads, rpc::Methods methods, std::size_t max_message_bytes);
  // Cancels open calls.
  ~GrpcOracle() override;

  const Address& address() const { return address_; }

 private:
  class OracleCall;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;

  net::IoThreads& threads_;
  const rpc::Methods methods_;
  Address address_{.host = "127.0.0.1", .port = 0, .unix_path = ""};
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  std::vector<std::unique_ptr<OracleCall>> calls_ SLUICE_GUARDED_BY(mutex_);  // all so far
};

}  // namespace sluice::test
