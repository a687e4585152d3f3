// A connection and its messages in flight. Derived classes implement how an RPC sends messages and
// matches answers to them.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "client/http2_connection.h"
#include "load/plan.h"
#include "load/recorder.h"
#include "load/request_writer.h"

namespace sluice::load {

class Channel {
 public:
  // The state that the channels of a worker share. Must outlive them.
  struct Shared {
    const Plan& plan;
    RequestWriter writer;
    Recorder recorder;
    std::function<void()> on_room;  // called when a timer, not an answer, ends a message
  };

  virtual ~Channel() = default;

  // Whether another message can be sent now.
  bool HasRoom() const {
    return in_flight_ < quota_ && connection_->accepts_requests() && IsFree();
  }

  // Sends a message whose latency counts from `start`. REQUIRES: HasRoom()
  virtual void Send(SteadyTime start) = 0;

  // Ends all messages in flight with `status`.
  virtual void FailAll(const GrpcStatus& status) = 0;

  // Ends the waits that answers have requested.
  virtual void WakeAll() {}

  // Why the channel can no longer send messages or receive answers; empty while it can.
  virtual std::string_view loss() const { return connection_->loss(); }

  std::uint32_t in_flight() const { return in_flight_; }

 protected:
  // At most `quota` messages are in flight.
  Channel(Shared& shared, std::unique_ptr<Http2Connection> connection, std::uint32_t quota)
      : shared_(shared), connection_(std::move(connection)), quota_(quota) {}

  // Whether the derived class can send another message, ignoring the quota and the connection.
  virtual bool IsFree() const = 0;

  Shared& shared_;
  const std::unique_ptr<Http2Connection> connection_;
  std::uint32_t in_flight_ = 0;

 private:
  const std::uint32_t quota_;
};

}  // namespace sluice::load
