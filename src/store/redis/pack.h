// A call of the check script in flight: the command sent, and the checks that wait for the reply.
//
// The pack owns its command, with every key, demand and lease id, so it can be sent again after
// checks have left. It does not own the checks: if one times out, a LateCheck replaces it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "store/store.h"

namespace sluice::redis {

struct Pack {
  struct Entry {
    std::size_t begin;  // its first check in `checks`
    std::size_t n;      // checks in it
  };

  std::string command;  // in the Redis protocol
  std::vector<Entry> entries;
  std::vector<StoreCheck*> checks;  // null: answered
  std::uint64_t first_entry = 0;    // CheckQueue's number of its first entry
  StoreCheck::Routing routing{};    // of all its checks

  // Clears all fields and keeps the memory.
  void Clear() {
    command.clear();
    entries.clear();
    checks.clear();
  }

  // Whether all its checks have timed out. REQUIRES: none is answered.
  bool IsAbandoned() const {
    return std::all_of(checks.begin(), checks.end(), [](auto* check) { return check->is_late; });
  }
};

}  // namespace sluice::redis
