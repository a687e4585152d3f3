#include "store/redis/settler.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "store/owned_check.h"
#include "store/redis/late_grant.h"

namespace sluice::redis {

// A copy of a check that was sent and then failed. The copy waits for the reply.
class Settler::LateCheck final : public OwnedCheck {
 public:
  LateCheck(Settler& settler, const StoreCheck& check, bool is_probe)
      : OwnedCheck(check), settler_(settler), is_probe_(is_probe) {}

  // See StoreCheck::undo_late.
  void Undo() {
    undo_ = true;
    if (replied_) settler_.Undo(*this);
  }

 private:
  void OnDecided() override {
    replied_ = true;
    if (!is_probe_) settler_.OnLateReply(*this, undo_);
  }

  Settler& settler_;
  const bool is_probe_;
  bool undo_ = false;
  bool replied_ = false;
};

// Undoes the charge to one counter, or releases its slots, or settles a lease of units. Releasing
// and settling may be repeated.
class Settler::Settlement final : public OwnedCheck,
                                  public std::enable_shared_from_this<Settlement> {
 public:
  Settlement(Settler& settler, const StoreCheck& check, const CounterCheck& counter)
      : OwnedCheck(check, counter, TakesLeases(*counter.limit) ? Mode::kSettle : Mode::kUndo),
        settler_(settler) {
    leases_units = false;
    counters.front().grant = {};  // a grant is not undone
  }

  // Settles a lease of units.
  Settlement(Settler& settler, const StoreCheck& check)
      : OwnedCheck(check),
        is_asked(demand.mode == Mode::kSettle),
        ends(settler.loop_.now() + lease->ttl + kSettlesFor),
        settler_(settler) {
    if (!is_asked) GiveBackAll();
  }

  // Whether Store::Settle requested this settlement. Otherwise, the settlement gives back what a
  // late or undone check took.
  const bool is_asked = false;
  const SteadyTime ends{};  // from this time on, the store has no record of the lease

 private:
  void OnDecided() override { settler_.OnSettled(*this); }

  Settler& settler_;
};

Settler::Settler(net::Loop& loop, MetricsRegistry& metrics, StoreListener* listener, Send send)
    : loop_(loop),
      listener_(listener),
      send_(std::move(send)),
      late_answers_(metrics.CounterFor("sluice_redis_late_answers_total",
                                       "Replies to checks that had already failed.")),
      unknown_outcomes_(metrics.CounterFor(
          "sluice_redis_unknown_outcomes_total",
          "Checks that were sent but not answered, so they may have been charged.")),
      lost_undos_(metrics.CounterFor(
          "sluice_redis_lost_undos_total",
          "Counters that stay charged for checks not admitted, because the undo failed.")),
      queued_settles_(
          metrics.GaugeFor("sluice_redis_queued_settles",
                           "Unanswered settlements of leases; they are sent again until answered.",
                           {{"loop", fmt::format("io-{}", loop.index())}})),
      lost_settles_(metrics.CounterFor(
          "sluice_redis_lost_settles_total",
          "Settlements that were lost, because too many were queued, Redis was unavailable for too "
          "long, or this server stopped; the leases stay charged as taken.")),
      retry_timer_(loop.timers(), [this] { SendDeferred(); }) {}

StoreCheck& Settler::Detach(PendingCheck& pending) {
  StoreCheck& check = *pending.check;
  const auto late = std::make_shared<LateCheck>(*this, check, pending.is_probe);
  check.undo_late = [late] { late->Undo(); };
  pending.check = late.get();
  pending.own = late;
  pending.is_late = true;
  return check;
}

void Settler::OnLateReply(const LateCheck& late, bool undo) {
  const auto failure = late.failure();
  if (failure && failure != StoreFailure::kTimeout) return;  // not run
  if (failure) {
    unknown_outcomes_.Increment();
    return ReleaseSlots(late);
  }
  late_answers_.Increment();
  undo ? Undo(late) : ReleaseSlots(late);
  if (late.concerns_grants) ReturnGrants(late);
  if (listener_ != nullptr) listener_->OnLateAnswer(late);
}

// A renewal takes no slots, so the holder keeps its lease. A charge that reports a lease to the
// store is repeated until its outcome is known, so its holder keeps the lease, too.
void Settler::ReleaseSlots(const StoreCheck& check) {
  if (!check.lease || check.demand.mode != Mode::kConsume) return;
  if (check.leases_units) return void(Settle(check));
  for (const CounterCheck& counter : check.counters) {
    if (TakesLeases(*counter.limit) && (counter.charged || counter.failure)) Undo(check, counter);
  }
}

// The grants of a late reply are returned, because nobody holds them.
void Settler::ReturnGrants(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) {
    if (counter.failure || counter.grant.units == 0) continue;
    send_(std::make_unique<PendingCheck>(std::make_shared<LateGrant>(listener_, check, counter)));
  }
}

void Settler::Undo(const StoreCheck& check) {
  if (check.leases_units) {
    const bool charged = std::any_of(check.counters.begin(), check.counters.end(),
                                     [](const CounterCheck& it) { return it.charged; });
    if (charged) Settle(check);
    return;
  }
  for (const CounterCheck& counter : check.counters) {
    if (counter.charged) Undo(check, counter);
  }
}

void Settler::Undo(const StoreCheck& check, const CounterCheck& counter) {
  auto settlement = std::make_shared<Settlement>(*this, check, counter);
  if (listener_ != nullptr) listener_->OnUndoStarted(*settlement);
  SendNow(std::move(settlement));
}

bool Settler::Settle(const StoreCheck& check) {
  const bool is_asked = check.demand.mode == Mode::kSettle;
  if (is_asked && !stopped_ && asked_.contains(check.lease->id)) return true;
  const std::size_t counters = check.counters.size();
  if (stopped_ || settles_ >= kMaxSettles || settled_counters_ + counters > kMaxSettledCounters) {
    lost_settles_.Increment();
    return false;
  }
  ++settles_;
  if (is_asked) asked_.insert(check.lease->id);
  settled_counters_ += counters;
  ShowQueued();
  auto settlement = std::make_shared<Settlement>(*this, check);
  if (listener_ != nullptr) listener_->OnUndoStarted(*settlement);
  on_their_way_ < kAtOnce ? SendNow(std::move(settlement)) : SendLater(std::move(settlement));
  return true;
}

void Settler::OnSettled(Settlement& settlement) {
  --on_their_way_;
  if (MayRepeat(settlement)) return SendLater(settlement.shared_from_this());
  const bool fails = settlement.failure().has_value();
  if (settlement.leases_units) {
    OnLeaseSettled(settlement);
  } else if (fails || settlement.counters.front().verdict.dropped > 0) {
    lost_undos_.Increment();
  }
  if (listener_ != nullptr) listener_->OnUndoEnded(settlement);
  if (!fails) OnAnswered();
}

bool Settler::MayRepeat(const Settlement& settlement) const {
  const auto failure = settlement.failure();
  if (!failure || stopped_) return false;
  if (settlement.leases_units) return loop_.now() < settlement.ends;
  const bool has_not_run =
      failure == StoreFailure::kUnreachable || failure == StoreFailure::kUnsent;
  return (has_not_run || settlement.demand.mode == Mode::kSettle) &&
         deferred_.size() < kMaxDeferred + settles_;
}

void Settler::OnLeaseSettled(const Settlement& settlement) {
  const bool fails = settlement.failure().has_value();
  if (fails && !stopped_) lost_settles_.Increment();
  --settles_;
  if (settlement.is_asked) {
    asked_.erase(settlement.lease->id);
    if (!fails && listener_ != nullptr) listener_->OnSettled(settlement);
  }
  settled_counters_ -= settlement.counters.size();
  ShowQueued();
}

void Settler::SendNow(std::shared_ptr<StoreCheck> settlement) {
  ++on_their_way_;
  send_(std::make_unique<PendingCheck>(std::move(settlement)));
}

void Settler::SendLater(std::shared_ptr<StoreCheck> settlement) {
  deferred_.push_back(std::move(settlement));
  if (!retry_timer_.active()) retry_timer_.Start(loop_.now() + kRetry);
}

// The store answers, so more can be sent. But if an operation has just failed, the rest waits for
// the retry timer.
void Settler::OnAnswered() {
  if (!deferred_.empty() && !retry_timer_.active()) SendDeferred();
}

// Operations that fail during this call are deferred again, behind the others.
void Settler::SendDeferred() {
  for (std::size_t n = deferred_.size(); n > 0 && on_their_way_ < kAtOnce; --n) {
    auto settlement = std::move(deferred_.front());
    deferred_.pop_front();
    SendNow(std::move(settlement));
  }
}

void Settler::Stop() {
  stopped_ = true;
  retry_timer_.Cancel();
  deferred_.clear();
  queued_settles_.Hide();
  if (settles_ == 0) return;
  lost_settles_.Increment(settles_);
  spdlog::warn(
      "{} settlements of leases are lost, because Redis did not answer before this server "
      "stopped; the units of these leases stay charged",
      settles_);
}

void Settler::ShowQueued() {
  if (!stopped_) queued_settles_.Set(static_cast<double>(settles_));
}

}  // namespace sluice::redis
