#include "client/check_loop.h"

#include <atomic>
#include <utility>

#include "client/connection.h"
#include "client/status.h"

namespace sluice {

struct CheckLoop::Call {
  grpc::ClientContext context;
  v1::CheckLimitResponse response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::CheckLimitResponse>> reader;
  OnAnswer on_answer;
  // Hands the call from the one who starts it to the loop's thread. gRPC does that, too, but in a
  // way that ThreadSanitizer cannot see.
  std::atomic<bool> handed_over = false;
};

CheckLoop::CheckLoop(Client& client)
    : client_(client), thread_("sluice-client", [this] { Run(); }) {}

CheckLoop::~CheckLoop() {
  queue_.Shutdown();
  thread_.Join();
}

void CheckLoop::Start(const v1::CheckLimitRequest& request, Duration timeout, OnAnswer on_answer) {
  auto call = std::make_unique<Call>();
  SetTimeout(call->context, timeout);
  call->on_answer = std::move(on_answer);
  call->reader = client_.connection_->stub->AsyncCheckLimit(&call->context, request, &queue_);
  Call* tag = call.release();  // the queue's until Run takes it back
  tag->handed_over.store(true, std::memory_order_release);
  tag->reader->Finish(&tag->response, &tag->status, tag);
}

void CheckLoop::Run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    const std::unique_ptr<Call> call(static_cast<Call*>(tag));
    static_cast<void>(call->handed_over.load(std::memory_order_acquire));
    if (call->status.ok()) {
      call->on_answer(std::move(call->response));
    } else {
      call->on_answer(ToError(call->status));
    }
  }
}

}  // namespace sluice
