// The source of the limiter's rules. Operator calls reload the rules. In sluiced, the source is
// ServerRules.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "envoy/xds/xds_client.h"

namespace sluice {

struct ReloadResult {
  // Whether the rules that were read are active now; true also if they are unchanged. If false, the
  // previous rules remain active.
  bool applied = false;
  bool unchanged = false;  // the files are as they were when the active rules were read
  // Every error found. A mistake in a rule file is `file:line:column: path: what is wrong`. Empty
  // if applied.
  std::vector<std::string> errors;
  std::size_t rules = 0;  // active now
  Time loaded_at;         // when the active rules were loaded
};

class RuleSource {
 public:
  virtual ~RuleSource() = default;

  // Reads the rules, all or nothing. Returns when the rules are active or refused. Blocks while
  // reading (seconds for 100,000 rules), so do not call it on a thread that serves checks.
  virtual ReloadResult Reload() = 0;

  // The state of the control plane. Absent if no rules come from a control plane. Does not block.
  virtual std::optional<envoy::XdsStatus> xds() const { return std::nullopt; }
};

}  // namespace sluice
