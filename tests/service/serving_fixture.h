// A gRPC server in this process, on a unix socket, an embedded store and a clock of the test's own;
// and calls to it.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "service/grpc_server.h"
#include "store/memory/memory_store.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

// Holds every check until told to go on, and tells of bursts.
class HeldStore final : public Store {
 public:
  explicit HeldStore(Store& store) : store_(store) {}

  void Submit(StoreCheck& check) override {
    if (bursts_ > 0) saw_burst_ = true;
    {
      const MutexLock lock(mutex_);
      if (holding_) return held_.push_back(&check);
    }
    store_.Submit(check);
  }
  void Reset(StoreReset& reset) override { store_.Reset(reset); }

  void Hold() {
    const MutexLock lock(mutex_);
    holding_ = true;
  }
  void Release() {
    for (StoreCheck* check : Drop()) store_.Submit(*check);
  }
  void Fail(StoreFailure failure) {
    for (StoreCheck* check : Drop()) {
      check->failure = failure;
      check->OnDecided();
    }
  }
  std::size_t held() const {
    const MutexLock lock(mutex_);
    return held_.size();
  }

  // How many bursts go on, and whether a check has come in one.
  int bursts() const { return bursts_; }
  bool saw_burst() const { return saw_burst_; }

 private:
  void BeginBurst() override { ++bursts_; }
  void EndBurst() override { --bursts_; }

  std::vector<StoreCheck*> Drop() {
    const MutexLock lock(mutex_);
    holding_ = false;
    return std::exchange(held_, {});
  }

  Store& store_;
  std::atomic<int> bursts_ = 0;
  std::atomic<bool> saw_burst_ = false;
  mutable Mutex mutex_;
  bool holding_ SLUICE_GUARDED_BY(mutex_) = false;
  std::vector<StoreCheck*> held_ SLUICE_GUARDED_BY(mutex_);
};

template <typename Response>
struct Reply {
  grpc::Status status;
  Response response;
};

// One unary call of raw bytes.
inline Reply<std::string> CallRaw(const std::shared_ptr<grpc::Channel>& channel,
                                  const std::string& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(bytes);
  auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  Reply<std::string> reply;
  call->Finish(&response, &reply.status, &reply);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  grpc::Slice answer;
  if (reply.status.ok() && response.DumpToSingleSlice(&answer).ok()) {
    reply.response.assign(answer.begin(), answer.end());
  }
  return reply;
}

// grpc.health.v1.HealthCheckResponse as bytes.
inline constexpr std::string_view kServing = "\x08\x01";
inline constexpr std::string_view kNotServing = "\x08\x02";

inline std::string Health(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& service = "") {
  const std::string name = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  return CallRaw(channel, "/grpc.health.v1.Health/Check", name).response;
}

class ServingTest : public testing::Test {
 protected:
  // The server waits for its calls, also where a test has failed halfway.
  ~ServingTest() override { store_.Release(); }

  template <typename Request, typename Response>
  Reply<Response> Call(grpc::Status (v1::RateLimiter::Stub::*method)(grpc::ClientContext*,
                                                                     const Request&, Response*),
                       const Request& request) {
    Reply<Response> reply;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    reply.status = ((*stub_).*method)(&context, request, &reply.response);
    return reply;
  }

  const TempDir dir_;
  const Address address_{.host = {}, .unix_path = dir_.path() / "grpc.sock"};
  ManualClock clock_{Time(std::chrono::seconds(1'000'000))};
  MetricsRegistry metrics_;
  MemoryStore memory_{clock_, {}};
  HeldStore store_{memory_};
  Limiter limiter_{{.store = store_, .local = memory_, .clock = clock_, .metrics = metrics_},
                   {.store_timeout = std::chrono::seconds(10)}};
  std::unique_ptr<GrpcServer> server_ =
      GrpcServer::Start(limiter_, {.address = address_, .queues = 2}).value();
  std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials());
  std::unique_ptr<v1::RateLimiter::Stub> stub_ = v1::RateLimiter::NewStub(channel_);
};

}  // namespace sluice::test
