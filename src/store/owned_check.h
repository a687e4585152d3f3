// A copy of a StoreCheck, out parameters included, that owns its keys and limits.
#pragma once

#include <string>
#include <vector>

#include "store/store.h"

namespace sluice {

class OwnedCheck : public StoreCheck {
 public:
  explicit OwnedCheck(const StoreCheck& check);

 private:
  void OnDecided() override {}

  std::string keys_;
  std::vector<Limit> limits_;
};

}  // namespace sluice
