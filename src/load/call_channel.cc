#include "load/call_channel.h"

#include <fmt/format.h>

namespace sluice::load {

class CallChannel::Call final : public GrpcCall {
 public:
  explicit Call(CallChannel& channel) : channel_(channel) { request_complete_ = true; }

  void Start(SteadyTime start) {
    Restart();
    answers_ = 0;
    message_ = channel_.recorder_.Begin(start, channel_.plan_.checks);
    channel_.writer_.Append(0, request_);
    channel_.connection_->Request(PathOf(channel_.plan_.rpc), *this);
  }

  Message& message() { return message_; }

 private:
  // Kept until the status says whether it counts.
  void OnMessage(std::string_view message) override {
    ++answers_;
    answer_.assign(message);
  }

  void OnStatus(const GrpcStatus& status) override {
    if (status.code == kOk && answers_ == 1) {
      channel_.Record(message_, answer_);
    } else if (status.code == kOk) {
      channel_.recorder_.Fail(message_, {kInternal, fmt::format("{} answers to a call", answers_)});
    } else {
      channel_.recorder_.Fail(message_, status);
    }
    --channel_.under_way_;
    channel_.idle_.push_back(this);
  }

  CallChannel& channel_;
  Message message_;
  std::string answer_;
  int answers_ = 0;
};

CallChannel::CallChannel(std::unique_ptr<Http2Connection> connection, std::uint32_t quota,
                         const Plan& plan, RequestWriter& writer, Recorder& recorder)
    : Channel(std::move(connection), quota, plan, writer, recorder) {}

CallChannel::~CallChannel() = default;

void CallChannel::Send(SteadyTime start) {
  if (idle_.empty()) idle_.push_back(&calls_.emplace_back(*this));
  Call& call = *idle_.back();
  idle_.pop_back();
  ++under_way_;
  call.Start(start);
}

void CallChannel::FailAll(const GrpcStatus& status) {
  for (Call& call : calls_) recorder_.Fail(call.message(), status);
  under_way_ = 0;
}

// The results of a batch stand in the order of its checks.
void CallChannel::Record(Message& message, std::string_view answer) {
  bool well_formed;
  if (plan_.rpc == Rpc::kUnary) {
    well_formed = ReadResponse(answer, results_.emplace_back());
  } else {
    well_formed = ReadResults(answer, results_);
  }
  if (!well_formed) {
    recorder_.Fail(message, {kInternal, "the answer is not a valid protobuf message"});
  } else if (results_.size() != plan_.checks) {
    recorder_.Fail(message, {kInternal, fmt::format("{} results for {} checks", results_.size(),
                                                    plan_.checks)});
  } else {
    for (const CheckResult& result : results_) recorder_.Record(message, result);
  }
  results_.clear();
}

}  // namespace sluice::load
