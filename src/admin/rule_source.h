// Where the limiter's rules come from, as the doors see it: something that can be told to read them
// again. sluiced's is RuleReloader.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"

namespace sluice {

struct ReloadResult {
  // Whether the rules read are in force now, be they the same as before. If not, those of before
  // still are.
  bool applied = false;
  // Every mistake found, as `file:line:column: path: what is wrong`. Empty if applied.
  std::vector<std::string> errors;
  std::size_t rules = 0;  // in force now
  Time loaded_at;         // since when they are
};

class RuleSource {
 public:
  virtual ~RuleSource() = default;

  // Reads the rules, all or nothing, and returns when they are in force or refused. Blocks for as
  // long as reading takes (seconds, for 100,000 rules), so call it on no thread that serves checks.
  virtual ReloadResult Reload() = 0;
};

}  // namespace sluice
