// Checks whose owners have already been answered: late replies, and grants to undo. Both kinds own
// themselves while in progress.
#include <utility>

#include "store/late_check.h"
#include "store/redis/node.h"
#include "store/undo_check.h"

namespace sluice::redis {
namespace {

// Beyond this, leases expire and other charges are not undone.
constexpr std::size_t kMaxDeferredUndos = 10'000;

bool IsNotRun(StoreFailure failure) {
  return failure == StoreFailure::kUnreachable || failure == StoreFailure::kUnsent ||
         failure == StoreFailure::kOverloaded;
}

}  // namespace

class Node::Late final : public LateCheck {
 public:
  Late(Node& node, const StoreCheck& check) : LateCheck(check), node_(node) {}

 private:
  void OnDecided() override {
    const std::unique_ptr<Late> self(this);
    node_.OnLateReply(*this);
  }

  Node& node_;
};

void DetachedUndo::OnDecided() { owner_.OnUndone(std::unique_ptr<DetachedUndo>(this)); }

// Returns the check that was in the slot.
StoreCheck& Node::ReplaceByLate(StoreCheck*& slot) {
  StoreCheck& check = *slot;
  auto* const late = new Late(*this, check);
  check.late = late;
  slot = late;
  return check;
}

void Node::OnLateReply(const Late& late) {
  const auto failure = late.failure();
  if (late.counters.front().key == probe_.key_) return;
  if (failure && failure != StoreFailure::kTimeout) return;  // not charged
  if (failure) {
    metrics_.CountUnknownOutcome();
    return Send(std::make_unique<DetachedUndo>(owner_, late, UndoCheck::Scope::kLeases));
  }
  metrics_.CountLateAnswer();
  const auto what = late.undo ? UndoCheck::Scope::kCharged : UndoCheck::Scope::kLeases;
  if (late.admitted) Send(std::make_unique<DetachedUndo>(owner_, late, what));
  if (options_.listener != nullptr) options_.listener->OnLateAnswer(late);
}

void Node::Undo(const StoreCheck& check) {
  Send(std::make_unique<DetachedUndo>(owner_, check, UndoCheck::Scope::kCharged));
}

void Node::Send(std::unique_ptr<DetachedUndo> undo) {
  if (undo->counters.empty()) return;
  if (!connection_.ready() || !breaker_.closed()) return Defer(std::move(undo));
  ++waiting_;
  Enqueue(*undo.release());
}

// Undos that were not run are sent later. Those that may have been must not run twice, except
// releases of leases, which may be repeated. Each counter has a result of its own, since they may
// have been split between nodes.
void Node::OnUndone(std::unique_ptr<DetachedUndo> undo) {
  const bool releases = undo->demand.mode == Mode::kRelease;
  if (!releases && options_.listener != nullptr) options_.listener->OnUndoEnded(*undo);
  const auto is_due = [&](const CounterCheck& counter) {
    return counter.failure && (releases || IsNotRun(*counter.failure));
  };
  for (const CounterCheck& counter : undo->counters) {
    if (is_due(counter)) continue;
    if (counter.failure || counter.verdict.dropped > 0) metrics_.CountLostUndo();
  }
  auto leases = std::make_unique<DetachedUndo>(owner_, *undo, UndoCheck::Scope::kLeases);
  std::erase_if(leases->counters,
                [&](const auto& counter) { return !counter.failure || is_due(counter); });
  if (!leases->counters.empty()) Defer(std::move(leases));
  std::erase_if(undo->counters, [&](const auto& counter) { return !is_due(counter); });
  if (!undo->counters.empty()) Defer(std::move(undo));
}

// A retired node is about to be stopped: another node sends the undo.
void Node::Defer(std::unique_ptr<DetachedUndo> undo) {
  if (retired_) return owner_.OnRedirect(*this, *undo.release(), {});
  if (deferred_undos_.size() >= kMaxDeferredUndos) return metrics_.CountLostUndo();
  deferred_undos_.push_back(std::move(undo));
  WatchBreaker();
}

void Node::SendDeferredUndos() {
  for (auto& undo : std::exchange(deferred_undos_, {})) Send(std::move(undo));
}

}  // namespace sluice::redis
