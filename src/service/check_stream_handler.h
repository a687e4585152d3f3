// CheckLimitStream: frames of checks come, frames of results leave, in whichever order checks are
// answered.
//
//   ──OnMessage──▶ waiting ──▶ started ──OnAnswered──▶ frame ──Flush, once a turn──▶ Send
//
// What was taken in, but not read by the caller, is bounded: beyond kMaxOpenChecks or kMaxOpenBytes
// the stream is not read, so a caller that does not read its results is held back by flow control.
//
// The stream ends when the caller has sent all and all is answered, at the first frame that is
// invalid as a whole, or when the server drains. In each case all that was taken in is answered
// first. A check without result has not been decided.
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
#include "service/check_item_pool.h"

namespace sluice {

class CheckStreamHandler final : public rpc::StreamHandler,
                                 private CheckItem::Owner,
                                 private net::Flushable {
 public:
  static constexpr std::size_t kMaxOpenChecks = 4096;
  static constexpr std::size_t kMaxOpenBytes = 4 * 1024 * 1024;
  // So many checks of one stream are started per turn of the loop.
  static constexpr std::size_t kChecksPerTurn = 64;

  // `items` are the loop's; both must outlive the handler.
  CheckStreamHandler(net::Loop& loop, CheckItemPool& items)
      : Flushable(net::FlushStage::kStore), loop_(loop), pool_(items) {}

  void OnStart(const rpc::Call& call) override;
  void OnMessage(std::string_view message) override;
  void OnHalfClose() override;
  void OnWritable() override;
  void OnDrain() override;
  void OnCancel() override;

 private:
  enum class State {
    kIdle,       // no call
    kOpen,       // takes in frames
    kEnding,     // takes in none; ends with status_ once all is answered
    kCancelled,  // ends once the store has handed back what it has
  };

  struct Waiting {
    std::unique_ptr<CheckItem> item;
    SteadyTime received;
  };

  void OnAnswered(CheckItem& item) override;
  void Flush() override;

  void TakeIn(std::string_view check);
  void StartSome();
  void StartLater();
  void SendFrame();
  void End(rpc::Status status);
  // Ends the call if all is answered; else reads on, or not.
  void Advance();
  bool HasRoom() const;

  net::Loop& loop_;
  CheckItemPool& pool_;
  std::vector<std::string_view> checks_;  // of the frame being taken in

  State state_ = State::kIdle;
  rpc::Status status_;
  SteadyTime deadline_;
  bool reading_ = true;
  std::deque<Waiting> waiting_;  // not started yet
  bool will_start_ = false;      // a task is posted that starts some of waiting_
  SteadyTime turn_;              // the turn that started_in_turn_ is of
  std::size_t started_in_turn_ = 0;
  std::size_t unanswered_ = 0;  // with those of waiting_; one more while StartSome runs
  std::size_t unanswered_bytes_ = 0;
  std::string frame_;  // results that are to be sent
  std::size_t frame_results_ = 0;
  std::vector<std::unique_ptr<CheckItem>> frame_holders_;  // whose results in it name a lease
  std::size_t unsent_results_ = 0;  // sent since the caller last had read everything
};

}  // namespace sluice
