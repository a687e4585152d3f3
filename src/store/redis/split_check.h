// A check whose counters are in several places: a piece for each, all decided at the same time, and
// joined to one answer. If one piece denies, what the others took is undone.
//
// Loop thread only. Owns itself until the whole check has been handed back.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "store/late_check.h"
#include "store/redis/part.h"
#include "store/store.h"

namespace sluice::redis {

class SplitCheck {
 public:
  // Sends the pieces of `whole`. `part` must outlive them.
  static void Start(Part& part, StoreCheck& whole);

 private:
  class Piece;

  SplitCheck(Part& part, StoreCheck& whole);
  ~SplitCheck();

  void OnPieceDecided();
  void Join();
  void UndoDenied();
  bool GroupHolds(std::uint16_t group) const;
  void Finish();
  bool AnyLate() const;

  Part& part_;
  StoreCheck& whole_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t undecided_ = 0;
};

}  // namespace sluice::redis
