// One thread's share of a load: its messages, on connections of its own.
//
// Loop thread only, but progress(). Dispose of it (Loop::DisposeLater); do not destroy it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
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
    kReady,  // all connections stand, or connect_error() says why one does not
    kRunning,
    kEnded,  // all messages are answered or have failed
  };

  // `plan` outlives the worker. `number` gives each worker its own sequence of keys. `on_change` is
  // called with each new state.
  Worker(net::EpollLoop& loop, const Plan& plan, std::uint32_t number,
         std::function<void(State)> on_change);
  ~Worker() override;

  // Starts to connect. At most `quota` messages are in flight on the connection.
  void Connect(const net::TlsClientContext* tls, std::uint32_t quota);

  // Starts to send. What starts before `measure_from` is not counted.
  // REQUIRES: the state is kReady
  void Begin(const Schedule& schedule, SteadyTime measure_from);

  // Starts no more messages, and ends the waits that answers have asked for.
  void Stop();

  // Why a connection could not be made; empty if all stand.
  const std::string& connect_error() const { return connect_error_; }
  // The most requests that the server allows in flight on one connection.
  std::uint32_t max_streams() const { return max_streams_; }

  Progress progress() const { return shared_.recorder.progress(); }

  // REQUIRES: the state is kEnded
  const Tally& tally() const { return shared_.recorder.tally(); }

 private:
  struct Pending {
    std::unique_ptr<Http2Connection> connection;
    std::uint32_t quota = 0;
  };

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
  std::vector<Pending> pending_;  // connections until Begin

  SteadyTime measure_from_{};
  Schedule schedule_;
  Channel::Shared shared_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::size_t next_channel_ = 0;
  SteadyTime turn_{};     // of the loop, in which
  int sent_in_turn_ = 0;  // so many messages were sent
  SteadyTime send_at_{};  // when the next message goes out; max(): once a channel has room
  SteadyTime full_at_{};  // when a message was last due and no channel had room
  std::chrono::duration<double> cpu_before_{-1};  // the measured part; negative: it has not begun
  std::unique_ptr<PreciseTimer> timer_;
};

}  // namespace sluice::load
