// A channel that sends messages on one CheckLimitStream. Each message has a slot, and its checks
// get a request_id made from the slot's number. So the request_id of a result identifies the
// message.
//
// Loop thread only.
#pragma once

#include <string>
#include <vector>

#include "client/grpc_call.h"
#include "load/channel.h"

namespace sluice::load {

class StreamChannel final : public Channel, private GrpcCall {
 public:
  // Starts the stream.
  StreamChannel(Shared& shared, std::unique_ptr<Http2Connection> connection, std::uint32_t quota);

  void Send(SteadyTime start) override;
  void FailAll(const GrpcStatus& status) override;
  std::string_view loss() const override { return end_.empty() ? Channel::loss() : end_; }

 private:
  bool IsFree() const override;
  void OnMessage(std::string_view message) override;
  void OnStatus(const GrpcStatus& status) override;
  void Record(const CheckResult& result);
  void End(const GrpcStatus& status);

  std::int32_t stream_id_ = 0;
  std::string end_;  // why the stream has ended; empty while it is open
  std::vector<Message> slots_;
  std::vector<std::uint32_t> free_;   // slots without a message
  std::vector<CheckResult> results_;  // scratch space for parsing a message
};

}  // namespace sluice::load
