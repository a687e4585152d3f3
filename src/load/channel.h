// A connection and the messages that are under way on it: how one RPC sends them and finds their
// answers.
//
// One thread at a time.
#pragma once

#include <cstdint>
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
  virtual ~Channel() = default;

  // Whether one more message may go out now.
  bool HasRoom() const {
    return under_way_ < quota_ && connection_->accepts_requests() && IsFree();
  }

  // Starts a message. REQUIRES: HasRoom()
  virtual void Send(SteadyTime start) = 0;

  // Ends all that is under way with `status`.
  virtual void FailAll(const GrpcStatus& status) = 0;

  // Why no message goes out any more, and no answer comes; empty as long as they may.
  virtual std::string_view loss() const { return connection_->loss(); }

  std::uint32_t under_way() const { return under_way_; }
  Http2Connection& connection() { return *connection_; }

 protected:
  // At most `quota` messages shall be under way. What is shared outlives the channel.
  Channel(std::unique_ptr<Http2Connection> connection, std::uint32_t quota, const Plan& plan,
          RequestWriter& writer, Recorder& recorder)
      : connection_(std::move(connection)),
        plan_(plan),
        writer_(writer),
        recorder_(recorder),
        quota_(quota) {}

  // What besides the quota and the connection must have room.
  virtual bool IsFree() const = 0;

  const std::unique_ptr<Http2Connection> connection_;
  const Plan& plan_;
  RequestWriter& writer_;
  Recorder& recorder_;
  std::uint32_t under_way_ = 0;

 private:
  const std::uint32_t quota_;
};

}  // namespace sluice::load
