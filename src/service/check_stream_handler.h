// CheckLimitStream: receives frames of checks and sends frames of results, in the order in which
// checks are answered.
//
//   ──OnMessage──▶ waiting ──▶ started ──OnAnswered──▶ frame ──Flush, once an iteration──▶ Send
//
// The number of open checks is bounded: at kMaxOpenChecks or kMaxOpenBytes, the handler stops
// reading the stream. So flow control stops a caller that does not read its results.
//
// The stream ends when the caller half-closes it, when a frame is invalid as a whole, when the
// caller is no longer admitted, or when the server drains. In each case, all accepted checks are
// answered first, so a check without a result has not been decided.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/loop.h"
#include "net/transport.h"
#include "rpc/handler.h"
#include "service/batched_check.h"

namespace sluice {

class CheckStreamHandler final : public rpc::StreamHandler,
                                 private BatchedCheck::Owner,
                                 private net::Flushable {
 public:
  static constexpr std::size_t kMaxOpenChecks = 4096;
  static constexpr std::size_t kMaxOpenBytes = 4 * 1024 * 1024;
  // How many checks of one stream are started per loop iteration.
  static constexpr std::size_t kChecksPerIteration = 64;

  // `items` belong to the loop. If `access` is null, every caller is admitted. All arguments must
  // outlive the handler.
  CheckStreamHandler(net::Loop& loop, BatchedCheckPool& items, const CallerAccess* access = nullptr)
      : Flushable(net::FlushStage::kStore), loop_(loop), pool_(items), access_(access) {}

  void OnStart(const rpc::Call& call) override;
  void OnMessage(std::string_view message) override;
  void OnHalfClose() override;
  void OnWritable() override;
  void OnDrain() override;
  void OnCancel() override;

 private:
  enum class State {
    kIdle,      // no call
    kOpen,      // accepts frames
    kEnding,    // accepts no frames; ends with status_ once all checks are answered
    kCanceled,  // ends once the store has returned all checks
  };

  struct Waiting {
    std::unique_ptr<BatchedCheck> item;
    SteadyTime received;
  };

  void OnAnswered(BatchedCheck& item) override;
  void Flush() override;

  // Returns whether the caller is admitted; otherwise ends the stream.
  bool Identify();
  void StartSome();
  void StartLater();
  void SendFrame();
  void End(rpc::Status status);
  // Ends the call if everything is answered; otherwise resumes or pauses reading.
  void Advance();
  bool HasRoom() const;

  net::Loop& loop_;
  BatchedCheckPool& pool_;
  const CallerAccess* const access_;
  std::vector<std::string_view> checks_;  // of the current frame

  State state_ = State::kIdle;
  rpc::Status status_;
  const rpc::Call* call_ = nullptr;  // while kOpen
  const Caller* caller_ = nullptr;   // null if there is no access_
  SteadyTime deadline_;
  bool reading_ = true;
  std::deque<Waiting> waiting_;  // not started yet
  bool will_start_ = false;      // a posted task will start some of waiting_
  SteadyTime iteration_;         // the iteration to which started_in_iteration_ belongs
  std::size_t started_in_iteration_ = 0;
  std::size_t unanswered_ = 0;  // including those in waiting_; StartSome adds 1 while it runs
  std::size_t unanswered_bytes_ = 0;
  std::string frame_;  // results to be sent
  std::size_t frame_results_ = 0;
  std::vector<std::unique_ptr<BatchedCheck>> frame_holders_;  // checks with a lease in frame_
  std::size_t unsent_results_ = 0;  // results sent since unsent_bytes() was last 0
};

}  // namespace sluice
