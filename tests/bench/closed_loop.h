// A closed-loop load generator, as cheap as gRPC allows: a fixed number of calls is always in
// flight, requests are serialized beforehand, and only a sample of the answers is parsed.
//
// One thread at a time.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice::bench {

struct LoadResult {
  std::int64_t calls = 0;
  std::int64_t errors = 0;
  std::int64_t sampled = 0;       // answers parsed
  std::int64_t not_by_store = 0;  // of these
  std::chrono::duration<double> elapsed{};

  double PerSecond() const { return static_cast<double>(calls) / elapsed.count(); }
};

class ClosedLoop {
 public:
  struct Options {
    int in_flight = 400;
    int channels = 8;
  };

  // Sends to the CheckLimit at `address`.
  ClosedLoop(const std::string& address, const Options& options);
  ~ClosedLoop();

  // Sends `requests` in random order (the same in every run) until `duration` is over, and returns
  // when all have been answered.
  LoadResult Run(const std::vector<grpc::ByteBuffer>& requests, Duration duration);

 private:
  struct Call;

  void Send(Call& call, const grpc::ByteBuffer& request);
  void Count(Call& call, LoadResult& result);

  const Options options_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
};

}  // namespace sluice::bench
