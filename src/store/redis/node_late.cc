// What is left of checks whose owners have been answered: replies that come late, and grants that
// nobody wants any more. Both own themselves while they are on their way.
#include <utility>

#include "store/late_check.h"
#include "store/redis/node.h"
#include "store/undo_check.h"

namespace sluice::redis {
namespace {

// Beyond, leases end by themselves, and what else is to be taken back stays charged.
constexpr std::size_t kMaxPutOff = 10'000;

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

void TakeBack::OnDecided() { owner_.OnTakenBack(std::unique_ptr<TakeBack>(this)); }

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
    return Send(std::make_unique<TakeBack>(owner_, late, UndoCheck::What::kLeases));
  }
  metrics_.CountLateAnswer();
  const auto what = late.undo ? UndoCheck::What::kCharged : UndoCheck::What::kLeases;
  if (late.admitted) Send(std::make_unique<TakeBack>(owner_, late, what));
  if (options_.late_answers != nullptr) options_.late_answers->OnLateAnswer(late);
}

void Node::Undo(const StoreCheck& check) {
  Send(std::make_unique<TakeBack>(owner_, check, UndoCheck::What::kCharged));
}

void Node::Send(std::unique_ptr<TakeBack> take_back) {
  if (take_back->counters.empty()) return;
  if (!connection_.ready() || !breaker_.closed()) return PutOff(std::move(take_back));
  ++waiting_;
  Gather(*take_back.release());
}

// What was not sent is sent later. What may have been decided must not be done twice, but leases
// may be released as often as one likes.
void Node::OnTakenBack(std::unique_ptr<TakeBack> take_back) {
  const auto failure = take_back->failure();
  const bool releases = take_back->demand.mode == Mode::kRelease;
  const bool unsent = failure == StoreFailure::kUnreachable || failure == StoreFailure::kUnsent;
  if (unsent || (failure && releases)) {
    return PutOff(std::move(take_back));
  }
  for (const CounterCheck& counter : take_back->counters) {
    if (failure || counter.verdict.dropped > 0) metrics_.CountLostUndo();
  }
  if (!failure || releases) return;
  auto leases = std::make_unique<TakeBack>(owner_, *take_back, UndoCheck::What::kLeases);
  if (!leases->counters.empty()) PutOff(std::move(leases));
}

void Node::PutOff(std::unique_ptr<TakeBack> take_back) {
  if (put_off_.size() >= kMaxPutOff) return metrics_.CountLostUndo();
  put_off_.push_back(std::move(take_back));
  WatchBreaker();
}

void Node::TakeBackPutOff() {
  for (auto& take_back : std::exchange(put_off_, {})) Send(std::move(take_back));
}

}  // namespace sluice::redis
