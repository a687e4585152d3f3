#include "store/redis/split_check.h"

#include <algorithm>
#include <utility>

namespace sluice::redis {
namespace {

// The replies that the pieces may still get.
class LatePieces final : public LateReply {
 public:
  explicit LatePieces(std::vector<std::shared_ptr<LateReply>> pieces)
      : pieces_(std::move(pieces)) {}

  void Undo() override {
    for (const auto& piece : pieces_) piece->Undo();
  }

 private:
  const std::vector<std::shared_ptr<LateReply>> pieces_;
};

}  // namespace

class SplitCheck::Piece final : public StoreCheck {
 public:
  Piece(SplitCheck& split, Route to) : route(to), split_(split) { AskLike(split.whole_); }

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

  const Route route;

 private:
  void OnDecided() override { split_.OnPieceDecided(); }

  SplitCheck& split_;
  std::vector<std::size_t> indices_;  // of its counters, in the whole check
};

void SplitCheck::Start(Router& router, PendingPtr whole) {
  auto* const split = new SplitCheck(router, std::move(whole));
  split->undecided_ = split->pieces_.size();
  const PendingCheck& pending = *split->pending_;
  // If the last piece is decided while it is sent, `split` is deleted.
  const auto pieces = split->pieces_.size();
  for (std::size_t i = 0; i < pieces; ++i) {
    Piece& piece = *split->pieces_[i];
    auto part = std::make_unique<PendingCheck>(piece);
    part->number = pending.number;
    part->routing = pending.routing;
    part->deadline_extended = pending.deadline_extended;
    router.SendTo(piece.route.node, std::move(part));
  }
}

SplitCheck::SplitCheck(Router& router, PendingPtr whole)
    : router_(router), pending_(std::move(whole)), whole_(*pending_->check) {
  for (std::size_t i = 0; i < whole_.counters.size(); ++i) {
    const Route route = router.RouteOf(whole_.counters[i].key, pending_->routing);
    auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                              [&](const auto& it) { return it->route == route; });
    if (piece == pieces_.end()) {
      piece = pieces_.insert(piece, std::make_unique<Piece>(*this, route));
    }
    (*piece)->Add(i);
  }
}

SplitCheck::~SplitCheck() = default;

void SplitCheck::OnPieceDecided() {
  if (--undecided_ > 0) return;
  Join();
  whole_.OnDecided();
  delete this;
}

// If a counter has failed and no other denies, its rule's policy decides. If that denies, the
// check's owner undoes the rest.
void SplitCheck::Join() {
  whole_.admitted = true;
  whole_.decided_at = Time();
  std::vector<std::shared_ptr<LateReply>> late;
  for (const auto& piece : pieces_) {
    piece->CopyTo(whole_);
    if (piece->late) late.push_back(std::move(piece->late));
  }
  if (!late.empty()) whole_.late = std::make_shared<LatePieces>(std::move(late));
  if (whole_.leases_units) JoinLease();
  if (whole_.demand.mode == Mode::kConsume) UndoDenied();
}

// A piece has its own records. It has none if all of its counters belong to shadow rules that have
// denied. A renewal needs only the records that exist.
void SplitCheck::JoinLease() {
  whole_.settled = Settled::kNotFound;
  whole_.lease_ends = Time();
  bool renewed = true;
  for (const auto& piece : pieces_) {
    whole_.settled = std::min(whole_.settled, piece->settled);
    whole_.lease_ends = std::max(whole_.lease_ends, piece->lease_ends);
    renewed &= piece->admitted || (!piece->failure() && piece->settled == Settled::kNotFound);
  }
  if (whole_.demand.mode == Mode::kRenew) {
    whole_.admitted = renewed && whole_.settled == Settled::kSettled;
  }
}

// Whether all counters of the group with a known result admit.
bool SplitCheck::GroupHolds(std::uint16_t group) const {
  return std::all_of(whole_.counters.begin(), whole_.counters.end(), [&](const auto& it) {
    return it.group != group || it.failure || it.verdict.admitted;
  });
}

void SplitCheck::UndoDenied() {
  const bool allowed = GroupHolds(0);
  std::vector<CounterCheck*> denied;
  for (CounterCheck& counter : whole_.counters) {
    const bool keeps = allowed && (counter.group == 0 || GroupHolds(counter.group));
    if (counter.charged && !keeps) denied.push_back(&counter);
  }
  if (whole_.leases_units && !allowed) router_.settler().Undo(whole_);
  for (CounterCheck* const counter : denied) {
    if (!whole_.leases_units) router_.settler().Undo(whole_, *counter);
    const CoalescedChecks checks{.demand = whole_.DemandOf(*counter),
                                 .lease = whole_.lease,
                                 .granted = 0,
                                 .now = counter->decided_at};
    Answer(*counter, {.snapshot = counter->before}, checks, 0);
  }
}

}  // namespace sluice::redis
