// A check whose counters are in several places. It is split into a piece per place, all sent at the
// same time, and their answers are merged. If one piece denies, the charges of the others are
// undone.
//
// Loop thread only. Owns itself until the whole check has been returned.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "store/late_check.h"
#include "store/redis/thread_store.h"
#include "store/store.h"

namespace sluice::redis {

class SplitCheck {
 public:
  // Sends the pieces of `whole`. `part` must outlive them.
  static void Start(ThreadStore& part, StoreCheck& whole);

 private:
  class Piece;

  SplitCheck(ThreadStore& part, StoreCheck& whole);
  ~SplitCheck();

  void OnPieceDecided();
  void Join();
  void UndoDenied();
  bool GroupHolds(std::uint16_t group) const;
  void Finish();
  bool AnyLate() const;

  ThreadStore& part_;
  StoreCheck& whole_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t undecided_ = 0;
};

}  // namespace sluice::redis
