// What the streams of one connection share: the frames they send, their memory, the queues in which
// they wait, and the answers that may be lost.
//
// Loop thread only. Owned by a Session.
#pragma once

#include <boost/intrusive/list.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/transport.h"
#include "rpc/http2/frame_writer.h"
#include "rpc/http2/loop_state.h"
#include "rpc/http2/message_memory.h"

namespace sluice::rpc::http2 {

class Stream;

// The entry of `stream` in a WaitQueue. The destructor removes the entry.
class Waiting : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  explicit Waiting(Stream& the_stream) : stream(the_stream) {}

  Stream& stream;
  SteadyTime since{};
};

// Streams that wait, in the order in which they began to wait.
class WaitQueue {
 public:
  // If the stream is already in the queue, moves it to the end.
  void Add(Waiting& waiting, SteadyTime now) {
    waiting.unlink();
    waiting.since = now;
    list_.push_back(waiting);
  }
  bool empty() const { return list_.empty(); }
  // When the first stream was added, or SteadyTime::max() if the queue is empty.
  SteadyTime oldest() const { return empty() ? SteadyTime::max() : list_.front().since; }
  // REQUIRES: the queue is not empty.
  Stream& front() { return list_.front().stream; }

 private:
  boost::intrusive::list<Waiting, boost::intrusive::constant_time_size<false>> list_;
};

// Answers that can still be lost: the kernel has not accepted them yet, or they were sent recently.
// If a caller gives up before it receives an answer, the caller's reset arrives within a round trip
// after the answer was sent.
class SentAnswers {
 public:
  // Adds an answer that is in the output. Calls `on_lost` if the connection ends before the kernel
  // has accepted the answer, or if the caller resets the stream soon afterward.
  void Add(std::int32_t stream, SteadyTime now, std::function<void()> on_lost) {
    while (!answers_.empty() &&
           (answers_.front().sent < now - kRoundTrip || answers_.size() >= kMaxAnswers)) {
      answers_.pop_front();
    }
    answers_.push_back({.stream = stream, .on_lost = std::move(on_lost)});
  }

  // The kernel has accepted all output so far.
  void OnSent(SteadyTime now) {
    for (auto it = answers_.rbegin(); it != answers_.rend() && it->sent == kUnsent; ++it) {
      it->sent = now;
    }
  }

  // The connection has ended.
  void OnEnd() {
    for (const Answer& it : std::exchange(answers_, {})) {
      if (it.sent == kUnsent) it.on_lost();
    }
  }

  // The caller has reset the stream.
  void OnReset(std::int32_t stream) {
    const auto lost = std::ranges::find(answers_, stream, &Answer::stream);
    if (lost == answers_.end()) return;
    const auto on_lost = std::move(lost->on_lost);
    answers_.erase(lost);
    on_lost();
  }

 private:
  static constexpr std::chrono::seconds kRoundTrip{1};
  static constexpr std::size_t kMaxAnswers = 1'024;  // more than the answers of one flush
  static constexpr SteadyTime kUnsent = SteadyTime::max();

  struct Answer {
    std::int32_t stream = 0;
    SteadyTime sent = kUnsent;
    std::function<void()> on_lost;
  };
  std::list<Answer> answers_;  // oldest first
};

struct StreamContext {
  SteadyTime now() const { return loop.loop().now(); }

  // Calls RunCallbacks of the stream at the end of the iteration.
  void RequestCallbacks(Stream& stream) {
    with_callbacks.push_back(&stream);
    transport.RequestFlush();
  }

  LoopState& loop;
  net::Transport& transport;
  FrameWriter frames;
  MessageMemory memory;
  WaitQueue incomplete_requests;
  WaitQueue unsent_responses;  // their bytes wait for the peer's window
  SentAnswers sent_answers;
  std::vector<Stream*> with_callbacks;
  bool draining = false;
  bool early_ends = false;  // whether a response has ended before its request
};

}  // namespace sluice::rpc::http2
