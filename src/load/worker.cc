#include "load/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/resource.h>

#include "load/call_channel.h"
#include "load/stream_channel.h"

namespace sluice::load {
namespace {

// The maximum number of messages sent per iteration, so that answers are still read when many
// messages are due.
constexpr int kSendsPerIteration = 256;
// In an open loop, messages are sent in batches, which delays each message by up to this time. A
// wake-up for each message would take more CPU than the server uses. Latencies include the delay.
constexpr auto kShortestWait = std::chrono::microseconds(100);

// The user and system CPU time of this thread.
std::chrono::duration<double> CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Worker::Worker(net::EpollLoop& loop, const Plan& plan, std::function<void(State)> on_change)
    : Flushable(net::FlushStage::kStore),  // before the connections
      loop_(loop),
      on_change_(std::move(on_change)),
      schedule_(SteadyTime{}),
      shared_{.plan = plan,
              .writer = RequestWriter(plan, loop.index()),
              .recorder = {},
              .on_room = [this] { OnEvent(); }},
      timer_(loop, [this] { OnEvent(); }) {}

void Worker::Connect(const net::TlsClientContext* tls, std::uint32_t quota) {
  auto connection = std::make_unique<Http2Connection>(loop_, shared_.plan.target, tls,
                                                      shared_.plan.timeout, [this] { OnEvent(); });
  pending_.emplace_back(std::move(connection), quota);
}

void Worker::Begin(const Schedule& schedule, SteadyTime measure_from) {
  schedule_ = schedule;
  measure_from_ = measure_from;
  shared_.recorder.MeasureFrom(measure_from);
  for (auto& [connection, quota] : pending_) {
    if (shared_.plan.rpc == Rpc::kStream) {
      channels_.push_back(std::make_unique<StreamChannel>(shared_, std::move(connection), quota));
    } else {
      channels_.push_back(std::make_unique<CallChannel>(shared_, std::move(connection), quota));
    }
  }
  pending_.clear();
  SetState(State::kRunning);
  OnEvent();
}

void Worker::Stop() {
  schedule_.EndAt(SteadyNow());
  for (const auto& channel : channels_) channel->WakeAll();
  OnEvent();
}

void Worker::SetState(State state) {
  state_ = state;
  on_change_(state);
}

// All other work is done in Flush, at the end of the iteration.
void Worker::OnEvent() {
  shared_.recorder.set_now(SteadyNow());
  loop_.RequestFlush(*this);
}

void Worker::Flush() {
  if (state_ == State::kConnecting) CheckConnections();
  if (state_ != State::kRunning) return;
  const SteadyTime now = SteadyNow();
  if (send_at_ <= now || send_at_ == SteadyTime::max()) SendDue(now);
  if (now >= measure_from_ && cpu_before_.count() < 0) cpu_before_ = CpuTime();
  if (!HasEnded(now)) return timer_.WakeAt(WakeAt(now));
  if (cpu_before_.count() >= 0) shared_.recorder.stats().cpu = CpuTime() - cpu_before_;
  // An open loop without a maximum number of messages is measured until its planned end, even if
  // the last answer arrives earlier.
  if (schedule_.is_open() && shared_.plan.messages == 0 && shared_.recorder.stats().lost.empty()) {
    shared_.recorder.ExtendTo(schedule_.end());
  }
  timer_.WakeAt(SteadyTime::max());
  channels_.clear();  // late answers do not count
  SetState(State::kEnded);
}

void Worker::CheckConnections() {
  bool all_settled = true;
  for (const auto& [connection, quota] : pending_) {
    all_settled &= connection->settled();
    if (connect_error_.empty()) connect_error_ = connection->loss();
  }
  if (!connect_error_.empty()) return SetState(State::kReady);
  if (!all_settled) return;
  max_streams_ = pending_.front().first->max_streams();
  SetState(State::kReady);
}

void Worker::SendDue(SteadyTime now) {
  if (std::exchange(iteration_, loop_.now()) != loop_.now()) sent_in_iteration_ = 0;
  for (; sent_in_iteration_ < kSendsPerIteration; now = SteadyNow()) {
    send_at_ = schedule_.next();
    if (!schedule_.IsDue(now)) {
      if (send_at_ != SteadyTime::max()) send_at_ = std::max(send_at_, now + kShortestWait);
      return;
    }
    Channel* const channel = NextWithRoom();
    if (channel == nullptr) {
      full_at_ = now;
      send_at_ = SteadyTime::max();
      return;
    }
    const SteadyTime start = schedule_.Take(now);
    NoteLateness(start, now);
    channel->Send(start);
    ++sent_in_iteration_;
  }
  send_at_ = SteadyTime{};  // continue in the next iteration
}

// Round robin.
Channel* Worker::NextWithRoom() {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = *channels_[next_channel_];
    next_channel_ = next_channel_ + 1 < channels_.size() ? next_channel_ + 1 : 0;
    if (channel.HasRoom()) return &channel;
  }
  return nullptr;
}

void Worker::NoteLateness(SteadyTime start, SteadyTime now) {
  if (start < measure_from_) return;
  LoadStats& stats = shared_.recorder.stats();
  ++stats.messages;
  const auto late = std::chrono::duration_cast<Duration>(now - start);
  if (late <= LoadStats::kLate || start <= full_at_) return;
  ++stats.late;
  stats.latest = std::max(stats.latest, late);
}

SteadyTime Worker::WakeAt(SteadyTime now) const {
  SteadyTime wake = send_at_;
  if (measure_from_ > now) wake = std::min(wake, measure_from_);
  const SteadyTime end = schedule_.end();
  return std::min(wake, end > now ? end : end + shared_.plan.timeout);
}

bool Worker::HasEnded(SteadyTime now) {
  const bool any_left = FailLost();
  const bool any_in_flight =
      std::ranges::any_of(channels_, [](const auto& it) { return it->in_flight() > 0; });
  if (schedule_.Over(now) && !any_in_flight) return true;
  if (!any_left) {
    shared_.recorder.stats().lost = channels_.front()->loss();
    return true;
  }
  if (now < schedule_.end() + shared_.plan.timeout) return false;
  Abandon({GrpcStatus::kDeadlineExceeded, "no answer within --timeout after the end of the load"});
  return true;
}

// Fails the messages in flight on lost channels. Returns whether any channel is left.
bool Worker::FailLost() {
  bool any_left = false;
  for (const auto& channel : channels_) {
    const std::string_view loss = channel->loss();
    any_left |= loss.empty();
    if (loss.empty() || channel->in_flight() == 0) continue;
    channel->FailAll({GrpcStatus::kUnavailable, std::string(loss)});
  }
  return any_left;
}

// Fails the messages in flight and the due messages that were not sent.
void Worker::Abandon(const GrpcStatus& status) {
  for (const auto& channel : channels_) channel->FailAll(status);
  while (schedule_.IsDue(schedule_.end())) {
    Message unsent = shared_.recorder.Begin(schedule_.Take(schedule_.end()), shared_.plan.checks);
    shared_.recorder.Fail(unsent, status);
  }
}

}  // namespace sluice::load
