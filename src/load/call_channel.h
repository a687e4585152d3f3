// A channel that sends each message as a separate call: CheckLimit or CheckLimits.
//
// Loop thread only.
#pragma once

#include <deque>
#include <vector>

#include "client/grpc_call.h"
#include "load/channel.h"

namespace sluice::load {

class CallChannel final : public Channel {
 public:
  CallChannel(Shared& shared, std::unique_ptr<Http2Connection> connection, std::uint32_t quota);
  ~CallChannel() override;

  void Send(SteadyTime start) override;
  void FailAll(const GrpcStatus& status) override;
  void WakeAll() override;

 private:
  class Call;

  bool IsFree() const override { return in_flight_ < connection_->max_streams(); }
  void Record(Message& message, std::string_view answer);

  std::deque<Call> calls_;            // reused; grows to the highest number in flight
  std::vector<Call*> idle_;           // the calls that are not in flight
  std::vector<CheckResult> results_;  // scratch space for parsing an answer
};

}  // namespace sluice::load
