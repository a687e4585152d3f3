// A connection and the messages in flight on it: how one RPC sends them and finds their answers.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "load/http2_connection.h"
#include "load/plan.h"
#include "load/recorder.h"
#include "load/request_writer.h"

namespace sluice::load {

class Channel {
 public:
  // What the channels of a worker share. Outlives them.
  struct Shared {
    const Plan& plan;
    RequestWriter writer;
    Recorder recorder;
    std::function<void()> on_room;  // a message is no longer in flight, outside of Receive
  };

  virtual ~Channel() = default;

  // Whether one more message may go out now.
  bool HasRoom() const {
    return in_flight_ < quota_ && connection_->accepts_requests() && IsFree();
  }

  // Starts a message. REQUIRES: HasRoom()
  virtual void Send(SteadyTime start) = 0;

  // Ends all messages in flight with `status`.
  virtual void FailAll(const GrpcStatus& status) = 0;

  // Ends the waits that answers have asked for.
  virtual void WakeAll() {}

  // Why no more messages can go out and no answers come; empty while they can.
  virtual std::string_view loss() const { return connection_->loss(); }

  std::uint32_t in_flight() const { return in_flight_; }

 protected:
  // At most `quota` messages are in flight.
  Channel(Shared& shared, std::unique_ptr<Http2Connection> connection, std::uint32_t quota)
      : shared_(shared), connection_(std::move(connection)), quota_(quota) {}

  // Whether there is room apart from the quota and the connection.
  virtual bool IsFree() const = 0;

  Shared& shared_;
  const std::unique_ptr<Http2Connection> connection_;
  std::uint32_t in_flight_ = 0;

 private:
  const std::uint32_t quota_;
};

}  // namespace sluice::load
