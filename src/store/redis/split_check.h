// A check whose counters are in several places. It is split into a piece per place, all sent at the
// same time, and their answers are merged. If one piece denies, the charges of the others are
// undone.
//
// Loop thread only. Owns itself until the whole check has been returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "store/redis/pending_check.h"
#include "store/redis/router.h"

namespace sluice::redis {

class SplitCheck {
 public:
  // Sends the pieces of `whole`. `router` must outlive them.
  static void Start(Router& router, PendingPtr whole);

 private:
  class Piece;

  SplitCheck(Router& router, PendingPtr whole);
  ~SplitCheck();

  void OnPieceDecided();
  void Join();
  void JoinLease();
  void UndoDenied();
  bool GroupHolds(std::uint16_t group) const;

  Router& router_;
  const PendingPtr pending_;
  StoreCheck& whole_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::size_t undecided_ = 0;
};

}  // namespace sluice::redis
