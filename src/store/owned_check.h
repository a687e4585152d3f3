// Copies of checks.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace sluice {

// Copies the demands of `from` to `to`, without counters.
void CopyDemands(const StoreCheck& from, StoreCheck& to);

// A copy of a StoreCheck, out parameters included, that owns its keys and limits.
class OwnedCheck : public StoreCheck {
 public:
  explicit OwnedCheck(const StoreCheck& check);

 private:
  void OnDecided() override {}

  std::string keys_;
  std::vector<Limit> limits_;
};

}  // namespace sluice
