#include "load/call_channel.h"

#include <fmt/format.h>

namespace sluice::load {

class CallChannel::Call final : public GrpcCall {
 public:
  explicit Call(CallChannel& channel)
      : channel_(channel), timer_(channel.connection_->loop().timers(), [this] { OnTime(); }) {
    request_complete_ = true;
  }

  void Start(SteadyTime start) {
    Restart();
    answers_ = 0;
    Shared& shared = channel_.shared_;
    message_ = shared.recorder.Begin(start, shared.plan.checks);
    shared.writer.Append(0, request_);
    stream_id_ = channel_.connection_->Request(PathOf(shared.plan.rpc), *this);
    if (shared.plan.call_timeout > Duration::zero()) {
      timer_.Start(SteadyNow() + shared.plan.call_timeout);
    }
  }

  // Fails the call: the connection is lost, or the worker stops waiting.
  void Fail(const GrpcStatus& status) {
    timer_.Cancel();
    asleep_ = false;
    channel_.shared_.recorder.Fail(message_, status);
  }

  void Wake() {
    if (!asleep_) return;
    timer_.Cancel();
    Finish();
  }

 private:
  // Keeps the answer until the status is known.
  void OnMessage(std::string_view message) override {
    ++answers_;
    answer_.assign(message);
  }

  void OnStatus(const GrpcStatus& status) override {
    timer_.Cancel();
    Recorder& recorder = channel_.shared_.recorder;
    if (status.code == GrpcStatus::kOk && answers_ == 1) {
      channel_.Record(message_, answer_);
    } else if (status.code == GrpcStatus::kOk) {
      recorder.Fail(message_,
                    {GrpcStatus::kInternal, fmt::format("{} answers to a call", answers_)});
    } else {
      recorder.Fail(message_, status);
    }
    Sleep(message_.wait);
  }

  void Sleep(Duration wait) {
    if (wait == Duration::zero() || !channel_.shared_.plan.sleep) return Finish();
    asleep_ = true;
    timer_.Start(channel_.shared_.recorder.now() + wait);
  }

  void OnTime() {
    if (asleep_) {
      channel_.shared_.recorder.ExtendTo(timer_.at());
    } else {
      channel_.connection_->Cancel(stream_id_);
      channel_.shared_.recorder.Fail(message_,
                                     {GrpcStatus::kDeadlineExceeded, "no answer within --timeout"});
    }
    Finish();
    channel_.shared_.on_room();
  }

  void Finish() {
    asleep_ = false;
    --channel_.in_flight_;
    channel_.idle_.push_back(this);
  }

  CallChannel& channel_;
  net::Timer timer_;  // for the call's timeout, then for the answer's wait
  std::int32_t stream_id_ = 0;
  Message message_;
  std::string answer_;
  int answers_ = 0;
  bool asleep_ = false;
};

CallChannel::CallChannel(Shared& shared, std::unique_ptr<Http2Connection> connection,
                         std::uint32_t quota)
    : Channel(shared, std::move(connection), quota) {}

CallChannel::~CallChannel() = default;

void CallChannel::Send(SteadyTime start) {
  if (idle_.empty()) idle_.push_back(&calls_.emplace_back(*this));
  Call& call = *idle_.back();
  idle_.pop_back();
  ++in_flight_;
  call.Start(start);
}

void CallChannel::FailAll(const GrpcStatus& status) {
  for (Call& call : calls_) call.Fail(status);
  in_flight_ = 0;
}

void CallChannel::WakeAll() {
  for (Call& call : calls_) call.Wake();
}

// The results of a batch are in the order of its checks.
void CallChannel::Record(Message& message, std::string_view answer) {
  const bool well_formed = shared_.plan.rpc == Rpc::kUnary
                               ? ReadResponse(answer, results_.emplace_back())
                               : ReadResults(answer, results_);
  if (!well_formed) {
    shared_.recorder.Fail(message,
                          {GrpcStatus::kInternal, "the answer is not a valid protobuf message"});
  } else if (results_.size() != shared_.plan.checks) {
    shared_.recorder.Fail(
        message, {GrpcStatus::kInternal,
                  fmt::format("{} results for {} checks", results_.size(), shared_.plan.checks)});
  } else {
    for (const CheckResult& result : results_) shared_.recorder.Record(message, result);
  }
  results_.clear();
}

}  // namespace sluice::load
