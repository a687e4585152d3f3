#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "store/redis/thread_store.h"

namespace sluice::redis {

// A check whose counters have several routes. The check is split into one piece per route. All
// pieces are sent at the same time, and their answers are merged. If one piece denies, the charges
// of the others are undone. This object owns itself until the whole check has been returned.
class ThreadStore::SplitCheck {
 public:
  SplitCheck(ThreadStore& store, PendingPtr whole)
      : store_(store), pending_(std::move(whole)), whole_(*pending_->check) {
    for (std::size_t i = 0; i < whole_.counters.size(); ++i) {
      const Route route = store_.RouteOf(whole_.counters[i].key, pending_->routing);
      auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                [&](const auto& it) { return it->route == route; });
      if (piece == pieces_.end()) {
        piece = pieces_.insert(piece, std::make_unique<Piece>(*this, route));
      }
      (*piece)->Add(i);
    }
  }

  void Send() {
    undecided_ = pieces_.size();
    // If the last piece is decided while it is sent, this object is deleted.
    for (std::size_t i = 0, pieces = undecided_; i < pieces; ++i) {
      auto part = std::make_unique<PendingCheck>(*pieces_[i]);
      part->number = pending_->number;
      part->routing = pending_->routing;
      part->deadline_extended = pending_->deadline_extended;
      store_.SendTo(pieces_[i]->route.node, std::move(part));
    }
  }

 private:
  class Piece final : public StoreCheck {
   public:
    Piece(SplitCheck& split, Route to) : route(to), split_(split) {
      CheckParameters::operator=(split.whole_);
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

    const Route route;

   private:
    void OnDecided() override { split_.OnPieceDecided(); }

    SplitCheck& split_;
    std::vector<std::size_t> indices_;  // of the piece's counters in the whole check
  };

  void OnPieceDecided() {
    if (--undecided_ > 0) return;
    Join();
    whole_.OnDecided();
    delete this;
  }

  // If a counter has failed and no other counter denies, the failure policy of its rule decides. If
  // the policy denies, the check's owner undoes the charges.
  void Join() {
    whole_.admitted = true;
    whole_.decided_at = Time();
    std::vector<std::function<void()>> late;
    for (const auto& piece : pieces_) {
      piece->CopyTo(whole_);
      if (piece->undo_late) late.push_back(std::move(piece->undo_late));
    }
    if (!late.empty()) {
      whole_.undo_late = [late = std::move(late)] {
        for (const auto& undo : late) undo();
      };
    }
    if (whole_.leases_units) JoinLease();
    if (whole_.demand.mode == Mode::kConsume) UndoDenied();
  }

  // Each piece has its own records. A piece has no record if all of its counters belong to shadow
  // rules that have denied. A renewal needs only the records that exist.
  void JoinLease() {
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

  // Whether all counters of the group admit, except those that failed.
  bool GroupHolds(std::uint16_t group) const {
    return std::all_of(whole_.counters.begin(), whole_.counters.end(), [&](const auto& it) {
      return it.group != group || it.failure || it.verdict.admitted;
    });
  }

  void UndoDenied() {
    const bool allowed = GroupHolds(0);
    std::vector<CounterCheck*> denied;
    for (CounterCheck& counter : whole_.counters) {
      const bool keeps = allowed && (counter.group == 0 || GroupHolds(counter.group));
      if (counter.charged && !keeps) denied.push_back(&counter);
    }
    if (whole_.leases_units && !allowed) store_.settler_.Undo(whole_);
    for (CounterCheck* const counter : denied) {
      if (!whole_.leases_units) store_.settler_.Undo(whole_, *counter);
      const CoalescedChecks checks{.demand = whole_.DemandOf(*counter),
                                   .lease = whole_.lease,
                                   .granted = 0,
                                   .now = counter->decided_at};
      Answer(*counter, {.snapshot = counter->before}, checks, 0);
    }
  }

  ThreadStore& store_;
  const PendingPtr pending_;
  StoreCheck& whole_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t undecided_ = 0;
};

void ThreadStore::SubmitSplit(PendingPtr whole) {
  (new SplitCheck(*this, std::move(whole)))->Send();
}

// What the pieces of a reset have in common.
class ThreadStore::SplitReset {
 public:
  explicit SplitReset(StoreReset& whole) : whole_(whole), pending_(whole.keys.size()) {}

  // If some pieces failed and others did not, the result is kTimeout, because some counters have
  // been reset.
  void OnPieceReset(std::optional<StoreFailure> failure) {
    if (!failure) ++done_;
    if (failure && failure_ != StoreFailure::kTimeout) failure_ = failure;
    if (--pending_ > 0) return;
    whole_.Finish(failure_ && done_ > 0 ? StoreFailure::kTimeout : failure_);
  }

  // Owns itself until it has been returned.
  struct Piece final : StoreReset {
    void OnReset() override {
      split->OnPieceReset(failure);
      delete this;
    }

    std::shared_ptr<SplitReset> split;
  };

 private:
  StoreReset& whole_;
  std::size_t pending_;
  std::size_t done_ = 0;
  std::optional<StoreFailure> failure_;
};

// In a Cluster, there is a piece for each key, since one command may only name keys of one slot.
void ThreadStore::ResetSplit(StoreReset& whole) {
  const auto split = std::make_shared<SplitReset>(whole);
  // Sending the last piece may finish this piece and then `whole`, so neither is used afterward.
  for (std::size_t i = 0, pieces = whole.keys.size(); i < pieces; ++i) {
    auto* const piece = new SplitReset::Piece;
    piece->keys = {whole.keys[i]};
    piece->deadline = whole.deadline;
    piece->split = split;
    ResetAt(NodeOf(whole.keys[i]), *piece);
  }
}

}  // namespace sluice::redis
