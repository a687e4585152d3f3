#include "store/redis/split_check.h"

#include <algorithm>

#include "store/owned_check.h"

namespace sluice::redis {

class SplitCheck::Piece final : public StoreCheck, private LateCheck::Watcher {
 public:
  Piece(SplitCheck& split, ThreadStore::Place place) : split_(split), place_(place) {
    CopyDemands(split.whole_, *this);
    deadline_extended = split.whole_.deadline_extended;
    routing = split.whole_.routing;
  }
  ~Piece() override {
    if (late_ != nullptr) late_->watcher = nullptr;
  }

  const ThreadStore::Place& place() const { return place_; }
  // Whether it was sent and failed before its reply arrived.
  bool is_late() const { return late_ != nullptr || replied_late_; }

  // Undoes everything that it was granted, or will be granted.
  void UndoLate() const {
    if (late_ != nullptr) late_->undo = true;
    if (replied_late_) split_.part_.Undo(*replied_late_);
  }

  void Add(std::size_t index) {
    indices_.push_back(index);
    counters.push_back(split_.whole_.counters[index]);
  }

  void CopyTo(StoreCheck& whole) const {
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      whole.counters[indices_[i]] = counters[i];
    }
    whole.admitted &= admitted;
    whole.decided_at = std::max(whole.decided_at, decided_at);
  }

 private:
  void OnDecided() override {
    late_ = late;
    if (late_ != nullptr) late_->watcher = this;
    split_.OnPieceDecided();
  }

  void OnLateEnd(const LateCheck& late_check) override {
    late_ = nullptr;
    if (!late_check.failure())
      replied_late_ = std::make_unique<OwnedCheck>(static_cast<const StoreCheck&>(late_check));
  }

  SplitCheck& split_;
  const ThreadStore::Place place_;
  std::vector<std::size_t> indices_;          // of its counters, in the whole check
  LateCheck* late_ = nullptr;                 // waits for its reply
  std::unique_ptr<OwnedCheck> replied_late_;  // its late grants, until the others are decided
};

void SplitCheck::Start(ThreadStore& part, StoreCheck& whole) {
  auto* const split = new SplitCheck(part, whole);
  split->undecided_ = split->pieces_.size();
  // The last piece may be decided while it is sent, which ends the split.
  const auto pieces = split->pieces_.size();
  for (std::size_t i = 0; i < pieces; ++i) {
    Piece& piece = *split->pieces_[i];
    part.SendTo(piece.place().node, piece);
  }
}

SplitCheck::SplitCheck(ThreadStore& part, StoreCheck& whole) : part_(part), whole_(whole) {
  for (std::size_t i = 0; i < whole.counters.size(); ++i) {
    const ThreadStore::Place place = part.PlaceOf(whole.counters[i].key, whole.routing);
    auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                              [&](const auto& it) { return it->place() == place; });
    if (piece == pieces_.end()) {
      piece = pieces_.insert(piece, std::make_unique<Piece>(*this, place));
    }
    (*piece)->Add(i);
  }
}

SplitCheck::~SplitCheck() = default;

void SplitCheck::OnPieceDecided() {
  if (--undecided_ > 0) return;
  Join();
  Finish();
  delete this;
}

// If a counter has failed, its rule's policy decides, and if that denies, the check's owner undoes
// the rest.
void SplitCheck::Join() {
  whole_.admitted = true;
  whole_.decided_at = Time();
  for (const auto& piece : pieces_) piece->CopyTo(whole_);
  if (whole_.demand.mode == Mode::kConsume) UndoDenied();
}

// Whether all counters of the group with a known result were charged.
bool SplitCheck::GroupHolds(std::uint16_t group) const {
  return std::all_of(whole_.counters.begin(), whole_.counters.end(),
                     [&](const auto& it) { return it.group != group || it.failure || it.charged; });
}

void SplitCheck::UndoDenied() {
  if (whole_.demand.cost == 0) return;
  const bool allowed = GroupHolds(0) || whole_.failure();
  OwnedCheck denied(whole_);
  bool any = false;
  for (std::size_t i = 0; i < whole_.counters.size(); ++i) {
    CounterCheck& counter = whole_.counters[i];
    const bool keeps = counter.group == 0 ? allowed : allowed && GroupHolds(counter.group);
    denied.counters[i].charged = counter.charged && !keeps;
    any |= denied.counters[i].charged;
  }
  if (!any) return;
  part_.Undo(denied);
  for (std::size_t i = 0; i < whole_.counters.size(); ++i) {
    if (!denied.counters[i].charged) continue;
    CounterCheck& counter = whole_.counters[i];
    const CoalescedChecks checks{
        .demand = whole_.demand, .lease = whole_.lease, .granted = 0, .now = counter.decided_at};
    Answer(counter, {.snapshot = counter.before}, checks, 0);
  }
}

bool SplitCheck::AnyLate() const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const auto& piece) { return piece->is_late(); });
}

// The owner's decision about its late check applies to the late checks of all pieces.
void SplitCheck::Finish() {
  if (!AnyLate()) return whole_.OnDecided();
  struct Joint final : LateCheck {
    using LateCheck::LateCheck;
  } joint(whole_);
  whole_.late = &joint;
  whole_.OnDecided();
  for (const auto& piece : pieces_) {
    if (joint.undo) piece->UndoLate();
  }
}

}  // namespace sluice::redis
