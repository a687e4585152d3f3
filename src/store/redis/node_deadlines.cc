// Deadlines of checks that Redis does not answer in time. One timer per node serves all of them.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "store/redis/node.h"

namespace sluice::redis {
namespace {

// How late a timer may be on a loop that is on time, since timers work in milliseconds.
constexpr std::chrono::milliseconds kTimerSteps(2);

}  // namespace

void Node::ArmTimer(SteadyTime deadline) {
  if (deadline == SteadyTime::max()) return;
  if (!timer_.active() || deadline < timer_.at()) timer_.Start(deadline);
}

// Sockets are read before timers run, so a reply that has arrived is not missed.
void Node::OnTimer() {
  const Duration late_by = std::chrono::duration_cast<Duration>(loop_.now() - timer_.at());
  if (late_by >= std::max<Duration>(options_.timeout / 2, kTimerSteps)) ExtendDeadlines();
  FailOverdue();
  if (!in_flight_.empty() && in_flight_.front().due <= loop_.now() && breaker_.closed()) {
    OpenBreaker(fmt::format("a call is not answered within {} µs", options_.timeout.count()));
  }
  const SteadyTime silent_for =
      in_flight_.empty() ? SteadyTime::max() : std::max(last_reply_, in_flight_.front().sent);
  if (!in_flight_.empty() && loop_.now() - silent_for >= options_.silence) {
    return connection_.Restart(fmt::format(
        "no reply for {} ms",
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.silence).count()));
  }
  ArmTimer(NextDeadline());
  loop_.RequestFlush(*this);
}

// This process was late, not Redis: overdue checks get their timeout again, once.
void Node::ExtendDeadlines() {
  const SteadyTime now = loop_.now();
  last_reply_ = now;
  const auto extend = [&](StoreCheck& check) {
    if (check.deadline > now || std::exchange(check.deadline_extended, true)) return;
    check.deadline = std::min<SteadyTime>(now + options_.timeout, check.last_deadline);
  };
  for (Awaited& awaited : in_flight_) {
    if (awaited.due <= now && !std::exchange(awaited.deadline_extended, true)) {
      awaited.due = now + options_.timeout;
    }
    if (!awaited.pack) continue;
    for (StoreCheck* check : awaited.pack->checks) extend(*check);
  }
  queue_.ForEach(extend);
}

// Removes the checks in flight whose deadline is `until` or before, linked in decision order. A
// probe keeps its own deadline.
StoreCheck* Node::TakeInFlight(SteadyTime until) {
  StoreCheck* first = nullptr;
  StoreCheck** end = &first;
  for (const Awaited& awaited : in_flight_) {
    if (!awaited.pack) continue;
    for (StoreCheck*& slot : awaited.pack->checks) {
      if (slot->deadline > (slot == &probe_ ? loop_.now() : until)) continue;
      *end = &ReplaceByLate(slot);
      end = &(*end)->next;
    }
  }
  *end = nullptr;
  return first;
}

// Checks in flight precede queued ones. An owner may submit another check from OnDecided.
void Node::FailOverdue() {
  const SteadyTime now = loop_.now();
  StoreCheck* const overdue = TakeInFlight(now);
  StoreCheck* const unsent = queue_.TakeExpired(now);
  FailList(overdue, StoreFailure::kTimeout);
  FailList(unsent, StoreFailure::kUnsent);
  for (std::size_t i = 0; i < in_flight_.size(); ++i) {
    StoreReset* const reset = in_flight_[i].reset;
    if (reset == nullptr || reset->deadline > now) continue;
    in_flight_[i].reset = nullptr;
    Finish(*reset, StoreFailure::kTimeout);
  }
}

// The earliest time at which a check or reset expires, or the server has been silent for too long.
SteadyTime Node::NextDeadline() const {
  SteadyTime next = SteadyTime::max();
  const auto consider = [&](const StoreCheck& check) { next = std::min(next, check.deadline); };
  for (const Awaited& awaited : in_flight_) {
    if (awaited.reset != nullptr) next = std::min(next, awaited.reset->deadline);
    if (!awaited.pack) continue;
    for (const StoreCheck* check : awaited.pack->checks) consider(*check);
  }
  queue_.ForEach(consider);
  if (in_flight_.empty()) return next;
  if (breaker_.closed()) next = std::min(next, in_flight_.front().due);
  return std::min<SteadyTime>(next,
                              std::max(last_reply_, in_flight_.front().sent) + options_.silence);
}

}  // namespace sluice::redis
