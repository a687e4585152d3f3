// One thread's share of a load: its messages and connections.
//
// Loop thread only. Must be destroyed by Loop::DisposeLater.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "load/channel.h"
#include "load/plan.h"
#include "load/precise_timer.h"
#include "load/schedule.h"
#include "net/epoll_loop.h"

namespace sluice::load {

class Worker final : public net::Flushable {
 public:
  enum class State : std::uint8_t {
    kConnecting,
    kReady,  // all connections are established, or connect_error() is set
    kRunning,
    kEnded,  // all messages are answered or have failed
  };

  // `plan` must outlive the worker. The loop's index seeds the worker's sequence of keys.
  // `on_change` is called with each new state.
  Worker(net::EpollLoop& loop, const Plan& plan, std::function<void(State)> on_change);

  // Starts to connect. At most `quota` messages are in flight on the connection.
  void Connect(const net::TlsClientContext* tls, std::uint32_t quota);

  // Starts to send. Messages that start before `measure_from` are not counted.
  // REQUIRES: the state is kReady
  void Begin(const Schedule& schedule, SteadyTime measure_from);

  // No message starts from now on. Ends the waits that answers have requested.
  void Stop();

  // Why a connection failed; empty if none has failed.
  const std::string& connect_error() const { return connect_error_; }
  // How many requests the server allows in flight on one connection.
  std::uint32_t max_streams() const { return max_streams_; }

  const Progress& progress() const { return shared_.recorder.progress(); }

  // REQUIRES: the state is kEnded
  const LoadStats& stats() const { return shared_.recorder.stats(); }

 private:
  void OnEvent();
  void Flush() override;
  void CheckConnections();
  void SendDue(SteadyTime now);
  Channel* NextWithRoom();
  void NoteLateness(SteadyTime start, SteadyTime now);
  SteadyTime WakeAt(SteadyTime now) const;
  bool HasEnded(SteadyTime now);
  bool FailLost();
  void Abandon(const GrpcStatus& status);
  void SetState(State state);

  net::EpollLoop& loop_;
  const std::function<void(State)> on_change_;
  State state_ = State::kConnecting;
  std::string connect_error_;
  std::uint32_t max_streams_ = 0;
  // The connections before Begin, and their quotas.
  std::vector<std::pair<std::unique_ptr<Http2Connection>, std::uint32_t>> pending_;

  SteadyTime measure_from_{};
  Schedule schedule_;
  Channel::Shared shared_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::size_t next_channel_ = 0;
  SteadyTime iteration_{};     // begin of the latest iteration that called SendDue
  int sent_in_iteration_ = 0;  // messages sent in that iteration
  SteadyTime send_at_{};       // when to send next; max(): in the next Flush
  SteadyTime full_at_{};       // when a due message last found no channel with room
  std::chrono::duration<double> cpu_before_{-1};  // at the measured part's start; negative: not set
  PreciseTimer timer_;
};

}  // namespace sluice::load
