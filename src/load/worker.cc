#include "load/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sys/prctl.h>
#include <sys/resource.h>

#include "load/call_channel.h"
#include "load/stream_channel.h"

namespace sluice::load {
namespace {

// Answers are read after as many messages, however many are due.
constexpr int kSendsPerTurn = 256;
// Messages of an open loop are up to so late, so that what is due meanwhile leaves together: to
// wake up for each would take more of the processor than the server does. Counted as any delay is.
constexpr auto kShortestWait = std::chrono::microseconds(100);
// Stop is heeded as soon.
constexpr auto kLongestWait = std::chrono::milliseconds(50);

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
  const auto number = static_cast<std::uint32_t>(lanes_.size());
  poller_.Add(connection->fd(), number);
  Lane& lane = lanes_.emplace_back();
  if (plan_.rpc == Rpc::kStream) {
    lane.channel =
        std::make_unique<StreamChannel>(std::move(connection), quota, plan_, writer_, recorder_);
  } else {
    lane.channel =
        std::make_unique<CallChannel>(std::move(connection), quota, plan_, writer_, recorder_);
  }
}

void Worker::Run() {
  prctl(PR_SET_TIMERSLACK, 1);  // the kernel's 50 us would be part of every latency
  for (;;) {
    SendDue();
    Flush();
    if (Ended()) break;
    Receive();
  }
  if (cpu_before_.count() >= 0) recorder_.tally().cpu = CpuTime() - cpu_before_;
}

void Worker::SendDue() {
  for (int i = 0; i < kSendsPerTurn; ++i) {
    const SteadyTime now = SteadyNow();
    send_at_ = schedule_.next();
    if (!schedule_.IsDue(now)) return;
    auto lane = NextWithRoom();
    if (!lane) {
      Flush();  // may make room
      lane = NextWithRoom();
    }
    if (!lane) {
      full_at_ = now;
      send_at_ = SteadyTime::max();
      return;
    }
    const SteadyTime start = schedule_.Take(now);
    NoteLateness(start, now);
    lanes_[*lane].channel->Send(start);
    Touch(*lane);
  }
  send_at_ = SteadyTime{};  // at once
}

// Everyone in turn.
std::optional<std::uint32_t> Worker::NextWithRoom() {
  const auto count = static_cast<std::uint32_t>(lanes_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t lane = turn_;
    turn_ = lane + 1 < count ? lane + 1 : 0;
    if (lanes_[lane].channel->HasRoom()) return lane;
  }
  return std::nullopt;
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

void Worker::Touch(std::uint32_t lane) {
  if (!std::exchange(lanes_[lane].touched, true)) touched_.push_back(lane);
}

void Worker::Flush() {
  for (const std::uint32_t number : touched_) {
    Lane& lane = lanes_[number];
    lane.touched = false;
    Http2Connection& connection = lane.channel->connection();
    connection.Flush();
    if (connection.lost() || connection.wants_write() == lane.waits_to_write) continue;
    lane.waits_to_write = connection.wants_write();
    poller_.WaitToWrite(connection.fd(), number, lane.waits_to_write);
  }
  touched_.clear();
}

void Worker::Receive() {
  const SteadyTime now = SteadyNow();
  const auto at_most = std::max(WakeAt(now) - now, SteadyTime::duration::zero());
  for (const epoll_event& ready : poller_.Wait(at_most)) {
    const std::uint32_t lane = ready.data.u32;
    recorder_.set_now(SteadyNow());
    lanes_[lane].channel->connection().Receive();
    Touch(lane);
  }
}

SteadyTime Worker::WakeAt(SteadyTime now) const {
  const SteadyTime send = send_at_ > now ? std::max(send_at_, now + kShortestWait) : now;
  SteadyTime wake = std::min(now + kLongestWait, send);
  if (measure_from_ > now) wake = std::min(wake, measure_from_);
  const SteadyTime give_up = schedule_.end() + plan_.timeout;
  return std::min(wake, give_up);
}

bool Worker::Ended() {
  const SteadyTime now = SteadyNow();
  recorder_.set_now(now);
  if (now >= measure_from_ && cpu_before_.count() < 0) cpu_before_ = CpuTime();
  if (stopped_) schedule_.EndAt(now);
  const bool any_left = FailLost();
  const bool any_under_way = std::any_of(
      lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.channel->under_way() > 0; });
  if (schedule_.Over(now) && !any_under_way) return true;
  if (!any_left) {
    recorder_.tally().lost = lanes_.front().channel->loss();
    return true;
  }
  if (now < schedule_.end() + plan_.timeout) return false;
  Abandon({kDeadlineExceeded, "still no answer --timeout after the end"});
  return true;
}

// Fails what is under way on lost channels. Whether any is left.
bool Worker::FailLost() {
  bool any_left = false;
  for (const Lane& lane : lanes_) {
    const std::string_view loss = lane.channel->loss();
    any_left |= loss.empty();
    if (loss.empty() || lane.channel->under_way() == 0) continue;
    lane.channel->FailAll({kUnavailable, std::string(loss)});
  }
  return any_left;
}

// What is under way, and what should have been sent, fails.
void Worker::Abandon(const GrpcStatus& status) {
  for (const Lane& lane : lanes_) lane.channel->FailAll(status);
  while (schedule_.IsDue(schedule_.end())) {
    Message unsent = recorder_.Begin(schedule_.Take(schedule_.end()), plan_.checks);
    recorder_.Fail(unsent, status);
  }
}

}  // namespace sluice::load
