#include "store/redis/settler.h"

#include <utility>

#include "store/owned_check.h"

namespace sluice::redis {
namespace {

bool HasNotRun(StoreFailure failure) {
  return failure == StoreFailure::kUnreachable || failure == StoreFailure::kUnsent;
}

}  // namespace

// The copy of a check that was sent and has failed.
class Settler::LateCheck final : public OwnedCheck, public LateReply {
 public:
  LateCheck(Settler& settler, const StoreCheck& check, bool is_probe)
      : OwnedCheck(check), settler_(settler), is_probe_(is_probe) {}

  void Undo() override {
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

// Undoes the charge to one counter, or releases its slots, which may be repeated.
class Settler::Settlement final : public OwnedCheck,
                                  public std::enable_shared_from_this<Settlement> {
 public:
  Settlement(Settler& settler, const StoreCheck& check, const CounterCheck& counter)
      : OwnedCheck(check, counter, TakesLeases(*counter.limit) ? Mode::kSettle : Mode::kUndo),
        settler_(settler) {}

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
      retry_timer_(loop.timers(), [this] { SendDeferred(); }) {}

StoreCheck& Settler::Detach(PendingCheck& pending) {
  StoreCheck& check = *pending.check;
  const auto late = std::make_shared<LateCheck>(*this, check, pending.is_probe);
  check.late = late;
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
  if (listener_ != nullptr) listener_->OnLateAnswer(late);
}

// A renewal takes no slots, so the holder keeps its lease. A charge that reports a lease to the
// store is repeated until its outcome is known, so its holder keeps the lease, too.
void Settler::ReleaseSlots(const StoreCheck& check) {
  const Mode mode = check.demand.mode;
  if (!check.lease || mode == Mode::kRenew || mode == Mode::kCharge) return;
  for (const CounterCheck& counter : check.counters) {
    if (TakesLeases(*counter.limit) && (counter.charged || counter.failure)) Undo(check, counter);
  }
}

void Settler::Undo(const StoreCheck& check) {
  for (const CounterCheck& counter : check.counters) {
    if (counter.charged) Undo(check, counter);
  }
}

void Settler::Undo(const StoreCheck& check, const CounterCheck& counter) {
  auto settlement = std::make_shared<Settlement>(*this, check, counter);
  if (listener_ != nullptr) listener_->OnUndoStarted(*settlement);
  send_(std::make_unique<PendingCheck>(std::move(settlement)));
}

bool Settler::Settle(const StoreCheck&) { return false; }

void Settler::OnSettled(Settlement& settlement) {
  const CounterCheck& counter = settlement.counters.front();
  const bool fails = counter.failure.has_value();
  const bool may_repeat = fails && (TakesLeases(*counter.limit) || HasNotRun(*counter.failure));
  if (may_repeat && SendLater(settlement.shared_from_this())) return;
  if (fails || counter.verdict.dropped > 0) lost_undos_.Increment();
  if (listener_ != nullptr) listener_->OnUndoEnded(settlement);
}

// Whether there is room for it.
bool Settler::SendLater(std::shared_ptr<Settlement> settlement) {
  if (stopped_ || deferred_.size() >= kMaxDeferred) return false;
  deferred_.push_back(std::move(settlement));
  if (!retry_timer_.active()) retry_timer_.Start(loop_.now() + kRetry);
  return true;
}

void Settler::SendDeferred() {
  for (auto& settlement : std::exchange(deferred_, {})) {
    send_(std::make_unique<PendingCheck>(std::move(settlement)));
  }
}

void Settler::Stop() {
  stopped_ = true;
  retry_timer_.Cancel();
  deferred_.clear();
}

}  // namespace sluice::redis
