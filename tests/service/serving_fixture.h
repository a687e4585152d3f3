// A server in this process, on a unix socket, with an embedded store and a clock that the test
// controls. Also calls to that server.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.grpc.pb.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "limiter/limiter.h"
#include "net/io_threads.h"
#include "rpc/http2/server.h"
#include "service/health_service.h"
#include "service/rate_limiter_service.h"
#include "service/reflection_service.h"
#include "store/memory/memory_store.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

// After Hold(), holds checks until the test releases them or lets them fail. Then the checks
// continue on their io threads.
class HeldStore final : public Store {
 public:
  explicit HeldStore(Store& store) : store_(store) {}

  void Submit(StoreCheck& check) override {
    {
      const MutexLock lock(mutex_);
      if (holding_) return held_.push_back({&check, net::Loop::Current()});
    }
    store_.Submit(check);
  }
  void Reset(StoreReset& reset) override { store_.Reset(reset); }
  void Undo(const StoreCheck& check) override { store_.Undo(check); }
  bool Settle(const StoreCheck& settle) override { return store_.Settle(settle); }
  std::size_t PartOf(std::string_view key) const override { return store_.PartOf(key); }

  void Hold() {
    const MutexLock lock(mutex_);
    holding_ = true;
  }
  void Release() { Continue(Drop()); }
  // Releases only the first `count` checks. REQUIRES: at least `count` are held
  void ReleaseFirst(std::size_t count) { Continue(Take(count)); }
  void Fail(StoreFailure failure) {
    for (const Held& it : Drop()) {
      it.loop->Post([failure, check = it.check] {
        check->Fail(failure);
        check->OnDecided();
      });
    }
  }
  std::size_t held() const {
    const MutexLock lock(mutex_);
    return held_.size();
  }

 private:
  struct Held {
    StoreCheck* check;
    net::Loop* loop;
  };

  void Continue(const std::vector<Held>& released) {
    for (const Held& it : released) {
      it.loop->Post([this, check = it.check] { store_.Submit(*check); });
    }
  }

  std::vector<Held> Drop() {
    const MutexLock lock(mutex_);
    holding_ = false;
    return std::exchange(held_, {});
  }
  std::vector<Held> Take(std::size_t count) {
    const MutexLock lock(mutex_);
    const auto end = held_.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<Held> taken(held_.begin(), end);
    held_.erase(held_.begin(), end);
    return taken;
  }

  Store& store_;
  mutable Mutex mutex_;
  bool holding_ SLUICE_GUARDED_BY(mutex_) = false;
  std::vector<Held> held_ SLUICE_GUARDED_BY(mutex_);
};

template <typename Response>
struct Reply {
  grpc::Status status;
  Response response;
};

// Makes one unary call with raw bytes.
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

// HealthCheckResponses of grpc.health.v1, as bytes.
inline constexpr std::string_view kServing = "\x08\x01";
inline constexpr std::string_view kNotServing = "\x08\x02";

inline std::string Health(const std::shared_ptr<grpc::Channel>& channel,
                          const std::string& service = "") {
  const std::string name = "\x0a" + std::string(1, static_cast<char>(service.size())) + service;
  return CallRaw(channel, "/grpc.health.v1.Health/Check", name).response;
}

// Derived tests can supply another store.
class ServingTest : public testing::Test {
 protected:
  explicit ServingTest(
      Store* store = nullptr,
      const Limiter::Options& options = {.store_timeout = std::chrono::seconds(10)})
      : store_(store == nullptr ? memory_ : *store),
        limiter_({.store = store_, .local = memory_, .fallback = fallback_, .metrics = metrics_},
                 options) {
    threads_.Start();
    rpc::Methods methods;
    rate_limiter_.AddTo(methods);
    health_.AddTo(methods);
    AddReflection(methods);
    server_ =
        rpc::http2::Server::Start(threads_, std::move(methods), {.address = address_}).value();
  }

  // Releases all checks first, even if a test has failed: the server waits for its calls.
  ~ServingTest() override {
    store_.Release();
    server_.reset();
    threads_.Stop();
  }

  // Stops the server as sluiced does.
  void Stop(Duration drain) {
    health_.StopServing();
    server_->Stop(drain);
  }

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
  HeldStore store_;
  Fallback fallback_{clock_};
  Limiter limiter_;
  RateLimiterService rate_limiter_{limiter_};
  HealthService health_;
  net::IoThreads threads_{2};
  std::unique_ptr<rpc::http2::Server> server_;
  std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel(address_.ToString(), grpc::InsecureChannelCredentials());
  std::unique_ptr<v1::RateLimiter::Stub> stub_ = v1::RateLimiter::NewStub(channel_);
};

}  // namespace sluice::test
