// Messages that are calls of their own: CheckLimit and CheckLimits.
//
// One thread at a time.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "load/channel.h"
#include "load/grpc_call.h"

namespace sluice::load {

class CallChannel final : public Channel {
 public:
  CallChannel(std::unique_ptr<Http2Connection> connection, std::uint32_t quota, const Plan& plan,
              RequestWriter& writer, Recorder& recorder);
  ~CallChannel() override;

  void Send(SteadyTime start) override;
  void FailAll(const GrpcStatus& status) override;

 private:
  class Call;

  bool IsFree() const override { return under_way_ < connection_->max_streams(); }
  void Record(Message& message, std::string_view answer);

  std::deque<Call> calls_;            // as many as ever were under way at once
  std::vector<Call*> idle_;           // of these, those that are not
  std::vector<CheckResult> results_;  // of the answer being read
};

}  // namespace sluice::load
