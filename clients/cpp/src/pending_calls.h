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
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

// Calls a function of the application. If it throws, calls `failed` with the exception's text.
template <class Function, class Failed>
void CallUnlessThrows(Function function, Failed failed) {
  try {
    function();
  } catch (const std::exception& exception) {
    failed(std::string(exception.what()));
  } catch (...) {
    failed(std::string("an exception of an unknown type"));
  }
}

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

  // Calls `done` on a thread of gRPC when the server has answered, or after `timeout`. If there is
  // no token, the call is not sent, and `done` gets the status of Authorize.
  template <class Request, class Response>
  void Start(Method<Request, Response> method, Request request, std::chrono::microseconds timeout,
             Done<Response> done);

  // Adds the caller's token, if it has one. Returns UNAVAILABLE if the function of the token
  // throws.
  grpc::Status Authorize(grpc::ClientContext& context) {
    grpc::Status status;
    if (!token_) return status;
    CallUnlessThrows([&] { context.AddMetadata("authorization", "Bearer " + token_()); },
                     [&](const std::string& why) {
                       status = {grpc::StatusCode::UNAVAILABLE, "Options::token threw: " + why};
                       std::call_once(warned_, [&] {
                         std::cerr << "sluice: calls fail: " << status.error_message() << '\n';
                       });
                     });
    return status;
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
  std::once_flag warned_;  // that there is no token
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
  const grpc::Status failure = Authorize(call->context);
  if (!failure.ok()) call->context.TryCancel();
  call->request = std::move(request);
  Begin();
  Call& started = *call;
  auto finish = [this, call = std::move(call), done = std::move(done),
                 failure](const grpc::Status& status) mutable {
    Response response = std::move(call->response);
    call.reset();
    done(failure.ok() ? status : failure, std::move(response));
    done = nullptr;  // objects in `done` may use the client
    End();
  };
  (stub_.async()->*method)(&started.context, &started.request, &started.response,
                           std::move(finish));
}

}  // namespace sluice
