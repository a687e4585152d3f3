// Calls of a client for which no thread waits.
//
// gRPC joins its callback threads when the last channel is destroyed, so a channel must not be
// destroyed on such a thread (gRPC issue 37858). Each call's context has a reference to the
// channel. So a call destroys its context before it counts as ended, and the client waits until all
// calls have ended.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <grpcpp/client_context.h>

#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

class PendingCalls {
 public:
  using AsyncStub = v1::RateLimiter::StubInterface::async_interface;
  template <class Request, class Response>
  using Method = void (AsyncStub::*)(grpc::ClientContext*, const Request*, Response*,
                                     std::function<void(grpc::Status)>);
  template <class Response>
  using Done = std::function<void(const grpc::Status&, Response&&)>;

  // `stub` and `token` must outlive this object.
  PendingCalls(v1::RateLimiter::StubInterface& stub, const std::function<std::string()>& token)
      : stub_(stub), token_(token) {}
  ~PendingCalls() { Wait(); }
  PendingCalls(const PendingCalls&) = delete;

  // Calls `done` on a thread of gRPC when the server has answered, or after `timeout`.
  template <class Request, class Response>
  void Start(Method<Request, Response> method, Request request, std::chrono::microseconds timeout,
             Done<Response> done);

  // Adds the caller's token, if it has one.
  void Authorize(grpc::ClientContext& context) const {
    if (token_) context.AddMetadata("authorization", "Bearer " + token_());
  }

  // Waits until no call is pending.
  void Wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void End() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

  v1::RateLimiter::StubInterface& stub_;
  const std::function<std::string()>& token_;
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;  // guarded by mutex_
};

template <class Request, class Response>
void PendingCalls::Start(Method<Request, Response> method, Request request,
                         std::chrono::microseconds timeout, Done<Response> done) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  Authorize(call->context);
  call->request = std::move(request);
  Begin();
  Call& started = *call;
  auto finish = [this, call = std::move(call),
                 done = std::move(done)](const grpc::Status& status) mutable {
    Response response = std::move(call->response);
    call.reset();
    done(status, std::move(response));
    done = nullptr;  // objects in `done` may use the client
    End();
  };
  (stub_.async()->*method)(&started.context, &started.request, &started.response,
                           std::move(finish));
}

}  // namespace sluice
