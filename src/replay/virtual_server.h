// A server with its rules and an embedded store, in virtual time. It decides the requests of a log
// like a sluiced that was started before the first request.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "limiter/check_call.h"
#include "limiter/fallback.h"
#include "limiter/limiter.h"
#include "match/rule_index.h"
#include "replay/logged_second.h"
#include "replay/queued_store.h"
#include "replay/timeline.h"

namespace sluice::replay {

// How often a rule denied a key, and the times of the first and the last denial.
struct DeniedKey {
  std::uint64_t denied = 0;
  Time first;
  Time last;
};

class VirtualServer {
 public:
  // What one rule did.
  struct RuleTally {
    Tally all;
    std::uint64_t skipped = 0;  // requests that matched but lack an attribute
    // Keyed by the values of `per`, as in the counter's key.
    std::unordered_map<std::string, DeniedKey, StringHash, std::equal_to<>> denied_keys;
  };

  // `index` has rules of one domain.
  VirtualServer(std::shared_ptr<const RuleIndex> index, std::size_t max_memory);
  ~VirtualServer();

  // Decides the requests of `second`, in order. Seconds must not go backwards. Returns the position
  // of the first request whose counters do not fit in memory; that request and the following ones
  // are not counted. Returns nullopt if all fit.
  std::optional<std::size_t> Decide(const LoggedSecond& second, const RequestShape& shape);

  // For each request of the last second, whether it was allowed.
  const std::vector<bool>& allowed() const { return allowed_; }

  const RuleIndex& index() const { return *index_; }
  const Tally& all() const { return all_; }
  std::uint64_t unmatched() const { return unmatched_; }
  std::uint64_t refused() const { return refused_; }
  // The error of the first refused request.
  const std::string& refusal() const { return refusal_; }
  const std::vector<RuleTally>& rules() const { return rules_; }  // by id
  // Series 0 counts all requests. Series 1 + id counts a rule's requests.
  const Timeline& timeline() const { return timeline_; }
  std::size_t counters() const { return store_.counters(); }

 private:
  class Call;

  void Count(const Call& call, const Result<CheckAnswer>& answer);
  void CountRules(const CheckAnswer& answer, Time at);
  void CountDeniedKey(const IndexedRule& rule, std::size_t counter, Time at);

  const std::shared_ptr<const RuleIndex> index_;
  QueuedStore store_;
  MetricsRegistry metrics_;
  Fallback fallback_{store_.clock()};
  Limiter limiter_;
  std::vector<std::unique_ptr<Call>> calls_;  // reused round robin
  std::size_t next_call_ = 0;

  std::vector<bool> allowed_;
  Tally all_;
  std::uint64_t unmatched_ = 0;
  std::uint64_t refused_ = 0;
  std::string refusal_;
  std::vector<RuleTally> rules_;
  Timeline timeline_;
  std::optional<std::size_t> full_;
};

}  // namespace sluice::replay
