#include "store/redis/split_reset.h"

namespace sluice::redis {

void SplitReset::Start(Router& router, StoreReset& whole) {
  auto* const split = new SplitReset(whole);
  // If the last piece is done while it is sent, `split` is deleted.
  const auto pieces = split->pieces_.size();
  for (std::size_t i = 0; i < pieces; ++i) {
    Piece& piece = *split->pieces_[i];
    router.ResetAt(router.RouteOf(piece.keys.front(), {}).node, piece);
  }
}

SplitReset::SplitReset(StoreReset& whole) : whole_(whole), pending_(whole.keys.size()) {
  for (const std::string_view key : whole.keys) {
    Piece& piece = *pieces_.emplace_back(std::make_unique<Piece>(*this));
    piece.keys = {key};
    piece.deadline = whole.deadline;
  }
}

// If some pieces failed, the result is kTimeout: counters may have been reset.
void SplitReset::OnPieceReset(const Piece& piece) {
  if (!piece.failure) ++done_;
  if (piece.failure && failure_ != StoreFailure::kTimeout) failure_ = piece.failure;
  if (--pending_ > 0) return;
  whole_.failure = failure_ && done_ > 0 ? StoreFailure::kTimeout : failure_;
  whole_.OnReset();
  delete this;
}

}  // namespace sluice::redis
