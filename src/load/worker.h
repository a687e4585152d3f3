// One thread of a load generator: its share of the messages, on connections of its own.
//
// Stop and progress on any thread; the rest before or after Run.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "load/channel.h"
#include "load/plan.h"
#include "load/poller.h"
#include "load/recorder.h"
#include "load/request_writer.h"
#include "load/schedule.h"

namespace sluice::load {

class Worker {
 public:
  // `plan` outlives the worker. What starts before `measure_from` is not counted. `number` makes it
  // choose other keys than its neighbours.
  Worker(const Plan& plan, std::uint32_t number, const Schedule& schedule, SteadyTime measure_from);

  // Of the messages at most `quota` shall be under way on it.
  void Add(std::unique_ptr<Http2Connection> connection, std::uint32_t quota);

  // Returns when all messages are answered or have failed.
  void Run();

  // Starts no more messages.
  void Stop() { stopped_ = true; }

  Progress progress() const { return recorder_.progress(); }
  const Tally& tally() const { return recorder_.tally(); }

 private:
  // A channel and what the worker does for it.
  struct Lane {
    std::unique_ptr<Channel> channel;
    bool touched = false;         // is among touched_
    bool waits_to_write = false;  // in the poller
  };

  void SendDue();
  std::optional<std::uint32_t> NextWithRoom();
  void NoteLateness(SteadyTime start, SteadyTime now);
  void Touch(std::uint32_t lane);
  void Flush();
  void Receive();
  SteadyTime WakeAt(SteadyTime now) const;
  bool Ended();
  bool FailLost();
  void Abandon(const GrpcStatus& status);

  const Plan& plan_;
  const SteadyTime measure_from_;
  Schedule schedule_;
  RequestWriter writer_;
  Recorder recorder_;
  Poller poller_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> touched_;  // lanes that may have something to flush
  std::uint32_t turn_ = 0;              // the lane whose turn it is to send
  SteadyTime send_at_{};  // when the next message can go out; max(): not before an answer comes
  SteadyTime full_at_{};  // when last a message was due and no lane had room
  std::chrono::duration<double> cpu_before_{-1};  // the measured part; negative: it has not begun
  std::atomic<bool> stopped_ = false;
};

}  // namespace sluice::load
