// gRPC's side of a call. gRPC's threads report events, which the reactor posts to the call's io
// thread, where all other work runs.
//
// Lives until gRPC has called OnDone and the io thread has run all events posted before.
#pragma once

#include <grpcpp/generic/async_generic_service.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "rpc/grpc/loop_calls.h"
#include "rpc/status.h"

namespace sluice::rpc::grpc_engine {

// Counts the open calls of a server. Thread-safe.
class CallCount {
 public:
  explicit CallCount(std::size_t max) : max_(max) {}

  // Counts a call, or returns false if `max` calls are open.
  bool Open();
  void Close() { open_.fetch_sub(1, std::memory_order_relaxed); }

  std::size_t open() const { return open_.load(std::memory_order_relaxed); }
  // The number of calls opened so far.
  std::size_t total() const { return total_.load(std::memory_order_relaxed); }

 private:
  const std::size_t max_;
  std::atomic<std::size_t> open_ = 0;
  std::atomic<std::size_t> total_ = 0;
};

class Reactor final : public ::grpc::ServerGenericBidiReactor {
 public:
  using Context = ::grpc::GenericCallbackServerContext;

  Reactor(LoopCalls& calls, std::size_t method, CallCount& count, const Context& context);

  // Starts a call that is already counted as open. Called on gRPC's thread. gRPC uses the returned
  // reactor until OnDone, which releases it.
  static Reactor* Start(LoopCalls& calls, std::size_t method, CallCount& count,
                        const Context& context);

  // The public functions below: loop thread only.

  // Valid until Finish, or until OpenCall::OnCancel has returned.
  const Context& context() const { return context_; }
  SteadyTime received() const { return received_; }
  SteadyTime deadline() const { return deadline_; }

  // Starts to read the next message, unless a read is pending or the input has ended.
  void Read();

  void Send(std::string_view message);
  std::size_t unsent_bytes() const { return unsent_bytes_; }

  // Ends a unary call with `response`, or any call with `status` after the sent messages.
  void Finish(std::string_view response, std::function<void()> on_lost);
  void Finish(const Status& status);

 private:
  // Called on gRPC's threads.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  template <typename Task>
  void Post(Task task);

  // Called on the loop thread.
  void HandleStart();
  void HandleRead(bool ok);
  void HandleWritten(bool ok);
  void HandleCancel();
  void WriteNext();
  void FinishNow(const Status& status);

  LoopCalls& calls_;
  const std::size_t method_;
  CallCount& count_;
  const Context& context_;
  const SteadyTime received_;
  const SteadyTime deadline_;
  std::shared_ptr<Reactor> self_;  // until OnDone

  OpenCall* call_ = nullptr;    // set while attached
  ::grpc::ByteBuffer message_;  // owned by gRPC during a read
  bool reading_ = false;
  bool input_ended_ = false;
  std::deque<::grpc::ByteBuffer> unsent_;  // the first one is being written
  std::size_t unsent_bytes_ = 0;
  std::optional<Status> last_;  // the status to finish with once unsent_ is empty
  bool finished_ = false;       // gRPC's Finish was called
  std::function<void()> on_lost_;
};

}  // namespace sluice::rpc::grpc_engine
