// A call of the check script on its way: what was sent, and the checks that wait for the reply.
//
// The pack owns its command, and with it every key, demand and lease id, so it can be sent again
// after checks have left. It does not own the checks: if one times out, a LateCheck takes its
// place.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/store.h"

namespace sluice::redis {

struct Pack {
  struct Run {
    std::size_t begin;  // its first check in `checks`
    std::size_t n;      // checks in it
  };

  std::string command;  // as Redis reads it
  std::vector<Run> runs;
  std::vector<StoreCheck*> checks;  // null: answered
  std::uint64_t first_run = 0;      // as Gathering numbers runs
  StoreCheck::Sending sending{};    // of all its checks

  // As new, memory kept.
  void Clear() {
    command.clear();
    runs.clear();
    checks.clear();
  }

  // Whether all its owners have left. REQUIRES: none is answered.
  bool IsAbandoned() const {
    return std::all_of(checks.begin(), checks.end(), [](auto* check) { return check->is_late; });
  }
};

}  // namespace sluice::redis
