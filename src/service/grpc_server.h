// The gRPC door: checks and leases, the operators' API, health and reflection, on one address.
//
// Start and Stop by one owner. Threads of its own: two per completion queue ("grpc-0" and
// "grpc-0+", …), and a few of gRPC's for what is no check: more while operators wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "base/address.h"
#include "base/result.h"
#include "limiter/admin_door.h"
#include "limiter/limiter.h"
#include "limiter/rule_source.h"

namespace sluice {

class GrpcServer {
 public:
  struct Options {
    Address address;
    // Completion queues, each with one thread or two; 0: one for two cores, at most 8.
    std::size_t queues = 0;
    // What a request may take on the wire; beyond, RESOURCE_EXHAUSTED.
    std::size_t max_request_bytes = 4 * 1024 * 1024;
    AdminDoor admin_door{AdminDoor::Opens::kToNobody, ""};
    // What ReloadRules reads again, if anything; must outlive the server.
    RuleSource* rules = nullptr;
  };

  // Serves from the moment it returns. `limiter` must outlive the server.
  static Result<std::unique_ptr<GrpcServer>> Start(Limiter& limiter, const Options& options);

  // Stops at once, unless stopped already.
  ~GrpcServer();

  // Where it listens, with the port really bound.
  const Address& address() const;

  // Reports itself not serving, and goes on serving until no call comes or is under way any more,
  // or half of `drain` has passed; an open stream is no call under way, a health check no call.
  // Then ends the streams, each with UNAVAILABLE as soon as what it took in is answered, takes no
  // more calls, gives those under way the rest of `drain` to end, and cancels what is left then.
  // Returns when every call is over.
  void Stop(std::chrono::milliseconds drain);

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

// What holds for all of gRPC in this process: what it has to say goes to our log, and its locks are
// not watched for deadlocks. Call it before any use of gRPC.
void SetUpGrpc();

}  // namespace sluice
