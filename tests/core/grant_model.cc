#include "tests/core/grant_model.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kLength = seconds(4);
constexpr Duration kLife = milliseconds(400);
constexpr Time kRedisStart{std::chrono::days(20'000)};

}  // namespace

GrantModel::GrantModel(const Limit& limit, std::uint32_t seed, Planted planted)
    : limit_(limit), planted_(planted), random_(seed) {
  const bool is_bucket = std::holds_alternative<TokenBucket>(limit);
  holders_.resize(static_cast<std::size_t>(3 + Below(18)));
  // The load is about 0.2 to 4 times the rate that the limits of the tests admit.
  load_ = Duration(static_cast<int>(holders_.size()) * 1'000 * 100 / (20 + Below(180)));
  const bool mixed = OneIn(3);
  for (Holder& holder : holders_) {
    holder.prefetches = !mixed || OneIn(2);
    holder.clock_rate = 0.95 + 0.01 * static_cast<double>(Below(11));
  }
  for (std::int64_t n = is_bucket && OneIn(3) ? 1 + Below(2) : 0; n > 0; --n) {
    steps_[Duration(Below(kLength.count()))] = -seconds(Below(3)) - milliseconds(Below(900));
  }
  Duration total{};
  for (auto& [at, step] : steps_) step = total += step;
}

Time GrantModel::RedisTime(Duration at) const {
  const auto next = steps_.upper_bound(at);
  return kRedisStart + at + (next == steps_.begin() ? Duration() : std::prev(next)->second);
}

std::vector<GrantModel::Use> GrantModel::Run() {
  for (std::size_t i = 0; i < holders_.size(); ++i) Arrive(i);
  for (int i = 0; i < 3; ++i) At(Duration(Below(kLength.count())), [this] { Burst(); });
  for (std::int64_t n = Below(4); n > 0; --n) {
    const auto victim = static_cast<std::size_t>(Below(static_cast<std::int64_t>(holders_.size())));
    At(Duration(Below(kLength.count())), [this, victim] { Kill(victim); });
  }
  while (!events_.empty()) {
    auto first = events_.extract(events_.begin());
    now_ = first.key();
    first.mapped()();
  }
  std::stable_sort(uses_.begin(), uses_.end(),
                   [](const Use& a, const Use& b) { return a.at < b.at; });
  return std::move(uses_);
}

// Every second holder is busier than the others. All holders sometimes pause.
void GrantModel::Arrive(std::size_t index) {
  if (now_ > kLength) return;
  const Duration gap(
      Below(OneIn(100) ? 500'000 : load_.count() * static_cast<int>(1 + 3 * (index % 2))));
  At(now_ + gap, [this, index] {
    Check(index, OneIn(200) ? 1 + Below(20) : 1);
    Arrive(index);
  });
}

// All holders send many checks within 1 ms.
void GrantModel::Burst() {
  const std::int64_t checks = Below(1'000) / static_cast<std::int64_t>(holders_.size());
  for (std::size_t i = 0; i < holders_.size(); ++i) {
    for (std::int64_t n = 0; n < checks; ++n) {
      At(now_ + Duration(Below(1'000)), [this, i] { Check(i, 1); });
    }
  }
}

// Mostly a short delay; sometimes a long one, which may exceed the life of a grant.
Duration GrantModel::Delay() { return Duration(OneIn(30) ? Below(250'000) : Below(1'500)); }

void GrantModel::Check(std::size_t index, std::int64_t units) {
  Holder& holder = holders_[index];
  if (holder.held.units > 0 && now_ < holder.until && units <= holder.left) {
    holder.left -= units;
    uses_.push_back({now_, units});
    used_from_grants_ += units;
    return;
  }
  GrantWish wish;
  const GrantReturn returned = TakeOut(holder);
  if (holder.prefetches && !std::exchange(holder.asks, true)) wish = {holder.wanted, kLife};
  Send(index, units, returned, wish);
}

// Takes the holder's grant away. Returns what the holder reports about it to the counter.
GrantReturn GrantModel::TakeOut(Holder& holder) {
  const Grant held = std::exchange(holder.held, {});
  if (held.units == 0) return {};
  const std::int64_t used = held.units - holder.left;
  const bool was_spent = 4 * holder.left <= held.units && now_ - holder.since < 3 * held.life / 4;
  holder.wanted =
      was_spent ? std::min<std::int64_t>(2 * holder.wanted, 1000) : std::max<std::int64_t>(used, 8);
  return {held.generation, held.units, holder.left};
}

// When the call arrives, the counter decides. A call for a grant, or its reply, may be lost.
void GrantModel::Send(std::size_t index, std::int64_t units, const GrantReturn& returned,
                      const GrantWish& wish) {
  const Duration sent = now_;
  const int life = holders_[index].life;
  const bool asks = wish.units > 0;
  const Duration arrives = now_ + Delay();
  const Duration answered = arrives + Delay();
  if (asks && OneIn(25)) {
    // The call or its reply is lost, so the holder gets nothing.
    At(now_ + seconds(1), [this, index, life] {
      if (holders_[index].life == life) holders_[index].asks = false;
    });
    if (OneIn(2)) return;
    At(arrives, [this, units, returned, wish] { Decide(units, returned, wish); });
    return;
  }
  const int times = planted_ == Planted::kReturnsTwice && returned.granted > 0 ? 2 : 1;
  if (times == 2) At(arrives, [this, returned] { Decide(0, returned, {}); });
  At(arrives, [this, index, life, units, returned, wish, sent, answered] {
    const Reply reply = Decide(units, returned, wish);
    At(answered, [this, index, life, reply, sent, wish] {
      if (holders_[index].life == life) OnReply(index, reply, sent, wish);
    });
  });
}

void GrantModel::OnReply(std::size_t index, const Reply& reply, Duration sent,
                         const GrantWish& wish) {
  Holder& holder = holders_[index];
  if (wish.units == 0) return;
  holder.asks = false;
  if (reply.grant.units == 0) return;
  ++grants_;
  // The holder's clock may be slow. To make up for that, the holder uses a grant for only nine
  // tenths of its life.
  const double counted = planted_ == Planted::kUsesBeyondTheEnd ? 30.0 : 0.9;
  const double life = counted * static_cast<double>(reply.grant.life.count()) / holder.clock_rate;
  const Duration from = planted_ == Planted::kUsesBeyondTheEnd ? now_ : sent;
  holder.held = reply.grant;
  holder.left = reply.grant.units;
  holder.since = now_;
  holder.until = from + Duration(static_cast<std::int64_t>(life));
  At(std::max(now_, holder.until), [this, index, its_life = holder.life, reply] {
    ReturnUnspent(index, its_life, reply.grant.generation);
  });
}

// Returns unused units at the end of the grant. The return may be late or lost.
void GrantModel::ReturnUnspent(std::size_t index, int life, Time generation) {
  Holder& holder = holders_[index];
  if (holder.life != life || holder.held.units == 0 || holder.held.generation != generation) return;
  const GrantReturn returned = TakeOut(holder);
  if (OneIn(10)) return;
  Send(index, 0, returned, {});
}

void GrantModel::Kill(std::size_t index) {
  Holder& holder = holders_[index];
  holder = {.prefetches = holder.prefetches != OneIn(3),
            .clock_rate = holder.clock_rate,
            .life = holder.life + 1};
}

GrantModel::Reply GrantModel::Decide(std::int64_t units, const GrantReturn& returned,
                                     const GrantWish& wish) {
  const Time time = RedisTime(now_);
  CounterState state;
  if (state_) {
    state = *state_;
    if (planted_ == Planted::kRefillsWithoutCap) {
      std::visit(
          [](auto& own) {
            if constexpr (requires { own.grants; }) own.grants = {};
          },
          state);
    }
    Advance(limit_, state, time);
  } else {
    Open(limit_, state, time);
  }
  if (planted_ == Planted::kRefillsWithoutCap && returned.unused > 0) {
    Change(limit_, state, {.demand = {{.mode = Mode::kRefund}, returned.unused}});
  } else {
    TakeBack(limit_, state, returned);
  }
  const CoalescedChecks check{.demand = {{}, units}, .granted = 1, .now = time};
  Reply reply{.admitted = units > 0 && Grants(limit_, state, check.demand, 1) == 1};
  if (reply.admitted) {
    Take(limit_, state, check);
    uses_.push_back({now_, units});
  }
  if (wish.units > 0) reply.grant = TakeGrant(limit_, state, wish);
  state_ = state;
  return reply;
}

}  // namespace sluice
