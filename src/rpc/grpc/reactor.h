// A call as gRPC sees it. gRPC's threads tell it what has happened, and it posts that to the call's
// io thread, where everything else of it runs.
//
// Lives until gRPC has called OnDone and the io thread has run what was posted before.
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

// How many calls are open in a server. Thread-safe.
class CallCount {
 public:
  explicit CallCount(std::size_t max) : max_(max) {}

  // False if there are as many as there may be.
  bool Open();
  void Close() { open_.fetch_sub(1, std::memory_order_relaxed); }

  std::size_t open() const { return open_.load(std::memory_order_relaxed); }
  // All that ever were.
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

  // On the thread of gRPC's that brought the call, already counted as open. gRPC owns what is
  // returned until OnDone.
  static Reactor* Start(LoopCalls& calls, std::size_t method, CallCount& count,
                        const Context& context);

  // Loop thread only, from here to the private part.

  // Valid until Finish, or until OpenCall::OnCancel has returned.
  const Context& context() const { return context_; }
  SteadyTime received() const { return received_; }
  SteadyTime deadline() const { return deadline_; }

  // Asks for the next message, unless it has been asked for, or there are no more.
  void Read();

  void Send(std::string_view message);
  std::size_t unsent_bytes() const { return unsent_bytes_; }

  // Ends a call whose only message is `response`, or any call after what was sent.
  void Finish(std::string_view response, std::function<void()> on_lost);
  void Finish(const Status& status);

 private:
  // gRPC's threads.
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  template <typename Task>
  void Post(Task task);

  // Loop thread.
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

  OpenCall* call_ = nullptr;    // while attached to it
  ::grpc::ByteBuffer message_;  // gRPC's while it reads
  bool reading_ = false;
  bool input_ended_ = false;
  std::deque<::grpc::ByteBuffer> unsent_;  // the first one is being written
  std::size_t unsent_bytes_ = 0;
  std::optional<Status> last_;  // to finish with once unsent_ is empty
  bool finished_ = false;       // gRPC has been told
  std::function<void()> on_lost_;
};

}  // namespace sluice::rpc::grpc_engine
