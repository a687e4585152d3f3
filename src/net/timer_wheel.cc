#include "net/timer_wheel.h"

#include <algorithm>

namespace sluice::net {

void TimerLink::Unlink() {
  previous->next = next;
  next->previous = previous;
  previous = next = this;
}

void TimerLink::LinkBefore(TimerLink& other) {
  previous = other.previous;
  next = &other;
  previous->next = this;
  other.previous = this;
}

void Timer::Start(SteadyTime at) {
  Cancel();
  at_ = at;
  tick_ = wheel_.TickAtOrAfter(at);
  wheel_.Add(*this);
}

void Timer::Cancel() {
  if (active()) Unlink();
}

std::uint64_t TimerWheel::TickAtOrBefore(SteadyTime at) const {
  if (at <= start_) return 0;
  return static_cast<std::uint64_t>(
      std::chrono::floor<std::chrono::milliseconds>(at - start_).count());
}

std::uint64_t TimerWheel::TickAtOrAfter(SteadyTime at) const {
  if (at <= start_) return 0;
  return static_cast<std::uint64_t>(
      std::chrono::ceil<std::chrono::milliseconds>(at - start_).count());
}

void TimerWheel::Add(Timer& timer) {
  const std::uint64_t due = std::clamp(timer.tick_, tick_ + 1, tick_ + kMaxAhead);
  // The lowest level whose ring reaches `due` without passing the current slot again.
  int level = 0;
  while (level + 1 < kLevels &&
         (due >> (level * kSlotBits)) - (tick_ >> (level * kSlotBits)) >= kSlots) {
    ++level;
  }
  const std::size_t slot = SlotOf(level, due);
  timer.LinkBefore(levels_[level][slot]);
  used_[level].set(slot);
}

void TimerWheel::Advance(SteadyTime now) {
  const std::uint64_t last = TickAtOrBefore(now);
  while (tick_ < last) {
    tick_ = std::min(NextTick(), last);
    for (int level = kLevels - 1; level > 0; --level) {
      const bool begins = tick_ % (std::uint64_t{1} << (level * kSlotBits)) == 0;
      if (begins) Refile(level);
    }
    Fire(levels_[0][SlotOf(0, tick_)]);
  }
}

// The next tick at which a slot that may hold timers begins, on any level.
std::uint64_t TimerWheel::NextTick() const {
  std::uint64_t next = UINT64_MAX;
  for (int level = 0; level < kLevels; ++level) {
    if (used_[level].none()) continue;
    const std::uint64_t here = tick_ >> (level * kSlotBits);
    for (std::uint64_t ahead = 1; ahead <= kSlots; ++ahead) {
      if (!used_[level].test((here + ahead) % kSlots)) continue;
      next = std::min(next, (here + ahead) << (level * kSlotBits));
      break;
    }
  }
  return next;
}

SteadyTime TimerWheel::NextWake() const {
  const std::uint64_t next = NextTick();
  return next == UINT64_MAX ? SteadyTime::max() : TimeOf(next);
}

// Moves the timers of the slot that begins at tick_ to lower levels.
void TimerWheel::Refile(int level) {
  const std::size_t slot = SlotOf(level, tick_);
  used_[level].reset(slot);
  TimerLink& head = levels_[level][slot];
  while (!head.alone()) {
    auto& timer = static_cast<Timer&>(*head.next);
    timer.Unlink();
    if (timer.tick_ <= tick_) {
      timer.LinkBefore(levels_[0][SlotOf(0, tick_)]);  // Advance fires this slot next
    } else {
      Add(timer);
    }
  }
}

// Timers that a callback starts are due later, so they go to other slots.
void TimerWheel::Fire(TimerLink& slot) {
  used_[0].reset(SlotOf(0, tick_));
  while (!slot.alone()) {
    auto& timer = static_cast<Timer&>(*slot.next);
    timer.Unlink();
    timer.on_time_();
  }
}

}  // namespace sluice::net
