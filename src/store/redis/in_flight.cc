#include "store/redis/in_flight.h"

#include <utility>

namespace sluice::redis {

void InFlight::Add(InFlightCommand command, SteadyTime now) {
  command.sent = now;
  command.due = now + timeout_;
  if (command.pack) ++PacksLike(*command.pack);
  commands_.push_back(std::move(command));
}

InFlightCommand InFlight::TakeOldest(SteadyTime now) {
  last_reply_ = now;
  InFlightCommand answered = std::move(commands_.front());
  commands_.erase(commands_.begin());
  if (answered.pack) --PacksLike(*answered.pack);
  return answered;
}

std::vector<InFlightCommand> InFlight::TakeAll() {
  slot_packs_ = shared_packs_ = 0;
  return std::exchange(commands_, {});
}

bool InFlight::MayHave(std::uint64_t number) const {
  return std::any_of(commands_.begin(), commands_.end(), [&](const InFlightCommand& it) {
    return it.pack && number >= it.pack->entries.front().number;
  });
}

bool InFlight::HasInOrder() const {
  bool found = false;
  ForEachCheck([&](const PendingCheck& it) { found |= it.check->in_order; });
  return found;
}

void InFlight::ExtendDeadlines(SteadyTime now) {
  last_reply_ = now;
  for (InFlightCommand& command : commands_) {
    if (command.due <= now && !std::exchange(command.deadline_extended, true)) {
      command.due = now + timeout_;
    }
  }
  ForEachCheck([&](PendingCheck& it) { it.ExtendDeadline(now, timeout_); });
}

std::vector<StoreReset*> InFlight::TakeOverdueResets(SteadyTime now) {
  std::vector<StoreReset*> overdue;
  for (InFlightCommand& command : commands_) {
    if (command.reset == nullptr || command.reset->deadline > now) continue;
    overdue.push_back(std::exchange(command.reset, nullptr));
  }
  return overdue;
}

SteadyTime InFlight::NextDeadline(bool with_overdue) const {
  SteadyTime next = SteadyTime::max();
  if (empty()) return next;
  for (const InFlightCommand& command : commands_) {
    if (command.reset != nullptr) next = std::min(next, command.reset->deadline);
  }
  ForEachCheck([&](const PendingCheck& it) { next = std::min(next, it.check->deadline); });
  if (with_overdue) next = std::min(next, oldest().due);
  return std::min(next, SilentFrom());
}

}  // namespace sluice::redis
