#include "load/worker.h"

#include <algorithm>
#include <chrono>

#include <sys/prctl.h>
#include <sys/resource.h>

#include "load/call_channel.h"
#include "load/stream_channel.h"

namespace sluice::load {
namespace {

// Stop is heeded as soon.
constexpr auto kLongestWait = std::chrono::milliseconds(50);

bool IsUnderWay(const std::unique_ptr<Channel>& channel) { return channel->under_way() > 0; }

// Of this thread, in user and system mode.
std::chrono::duration<double> CpuTime() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  const auto seconds = [](const timeval& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

Worker::Worker(const Plan& plan, std::uint32_t number, const Schedule& schedule,
               SteadyTime measure_from)
    : plan_(plan),
      measure_from_(measure_from),
      schedule_(schedule),
      writer_(plan, number),
      recorder_(measure_from) {}

void Worker::Add(std::unique_ptr<Http2Connection> connection, std::uint32_t quota) {
  polled_.push_back({.fd = connection->fd(), .events = POLLIN, .revents = 0});
  if (plan_.rpc == Rpc::kStream) {
    channels_.push_back(
        std::make_unique<StreamChannel>(std::move(connection), quota, plan_, writer_, recorder_));
  } else {
    channels_.push_back(
        std::make_unique<CallChannel>(std::move(connection), quota, plan_, writer_, recorder_));
  }
}

void Worker::Run() {
  prctl(PR_SET_TIMERSLACK, 1);  // the kernel's 50 us would be part of every latency
  for (;;) {
    SendDue();
    Flush();
    if (Ended()) break;
    Wait();
    Receive();
  }
  if (cpu_before_.count() >= 0) recorder_.tally().cpu = CpuTime() - cpu_before_;
}

void Worker::SendDue() {
  for (;;) {
    const SteadyTime now = SteadyNow();
    Channel* const channel = schedule_.IsDue(now) ? NextWithRoom() : nullptr;
    full_ = channel == nullptr && schedule_.IsDue(now);
    if (full_) full_at_ = now;
    if (channel == nullptr) return;
    const SteadyTime start = schedule_.Take(now);
    NoteLateness(start, now);
    channel->Send(start);
  }
}

Channel* Worker::NextWithRoom() {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = *channels_[turn_];
    turn_ = (turn_ + 1) % channels_.size();
    if (channel.HasRoom()) return &channel;
  }
  return nullptr;
}

void Worker::NoteLateness(SteadyTime start, SteadyTime now) {
  if (start < measure_from_) return;
  Tally& tally = recorder_.tally();
  ++tally.messages;
  const auto late = std::chrono::duration_cast<Duration>(now - start);
  if (late <= Tally::kLate || start <= full_at_) return;
  ++tally.late;
  tally.latest = std::max(tally.latest, late);
}

void Worker::Flush() {
  for (const auto& channel : channels_) {
    if (channel->loss().empty()) channel->connection().Flush();
  }
}

void Worker::Wait() {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    Http2Connection& connection = channels_[i]->connection();
    polled_[i].fd = channels_[i]->loss().empty() ? connection.fd() : -1;
    polled_[i].events = static_cast<short>(connection.wants_write() ? POLLIN | POLLOUT : POLLIN);
  }
  const SteadyTime now = SteadyNow();
  const auto left = std::max(WakeAt(now) - now, SteadyTime::duration::zero());
  const timespec timeout = {.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(left).count()};
  if (ppoll(polled_.data(), polled_.size(), &timeout, nullptr) > 0) return;
  for (pollfd& polled : polled_) polled.revents = 0;
}

SteadyTime Worker::WakeAt(SteadyTime now) const {
  SteadyTime wake = now + kLongestWait;
  if (!full_) wake = std::min(wake, schedule_.next());
  if (measure_from_ > now) wake = std::min(wake, measure_from_);
  const SteadyTime give_up = schedule_.end() + plan_.timeout;
  return std::min(wake, give_up);
}

void Worker::Receive() {
  for (std::size_t i = 0; i < channels_.size(); ++i) {
    if ((polled_[i].revents & ~POLLOUT) == 0) continue;
    recorder_.set_now(SteadyNow());
    channels_[i]->connection().Receive();
  }
}

bool Worker::Ended() {
  const SteadyTime now = SteadyNow();
  recorder_.set_now(now);
  if (now >= measure_from_ && cpu_before_.count() < 0) cpu_before_ = CpuTime();
  if (stopped_) schedule_.EndAt(now);
  const bool any_left = FailLost();
  const bool any_under_way = std::any_of(channels_.begin(), channels_.end(), IsUnderWay);
  if (schedule_.Over(now) && !any_under_way) return true;
  if (!any_left) {
    recorder_.tally().lost = channels_.front()->loss();
    return true;
  }
  if (now < schedule_.end() + plan_.timeout) return false;
  Abandon({kDeadlineExceeded, "still no answer --timeout after the end"});
  return true;
}

// Fails what is under way on lost channels. Whether any is left.
bool Worker::FailLost() {
  bool any_left = false;
  for (const auto& channel : channels_) {
    const std::string_view loss = channel->loss();
    any_left |= loss.empty();
    if (loss.empty() || channel->under_way() == 0) continue;
    channel->FailAll({kUnavailable, std::string(loss)});
  }
  return any_left;
}

// What is under way, and what should have been sent, fails.
void Worker::Abandon(const GrpcStatus& status) {
  for (const auto& channel : channels_) channel->FailAll(status);
  while (schedule_.IsDue(schedule_.end())) {
    Message unsent = recorder_.Begin(schedule_.Take(schedule_.end()), plan_.checks);
    recorder_.Fail(unsent, status);
  }
}

}  // namespace sluice::load
