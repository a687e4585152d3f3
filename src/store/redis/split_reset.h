// A reset of counters in a Cluster: a piece for each key, since one command may only name keys of
// one slot.
//
// Loop thread only. Owns itself until the whole reset has been returned.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "store/redis/router.h"
#include "store/store.h"

namespace sluice::redis {

class SplitReset {
 public:
  // Sends the pieces of `whole`. `router` must outlive them.
  static void Start(Router& router, StoreReset& whole);

 private:
  struct Piece final : StoreReset {
    explicit Piece(SplitReset& owner) : split(owner) {}
    void OnReset() override { split.OnPieceReset(*this); }

    SplitReset& split;
  };

  explicit SplitReset(StoreReset& whole);

  void OnPieceReset(const Piece& piece);

  StoreReset& whole_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t pending_;
  std::size_t done_ = 0;
  std::optional<StoreFailure> failure_;
};

}  // namespace sluice::redis
