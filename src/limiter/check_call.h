// One check on its way from a door (gRPC, HTTP) to its answer. A door derives from CheckCall, fills
// `request`, calls Start, and hears the answer in OnAnswer. Meant to be reused call after call: its
// memory is kept.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "match/rule_index.h"
#include "store/store.h"

namespace sluice {

class Limiter;

struct CheckRequest {
  std::string_view domain;
  std::vector<Attribute> attributes;
  std::uint64_t cost = 1;
  Mode mode = Mode::kConsume;
  std::optional<Duration> max_wait;
  SteadyTime deadline = SteadyTime::max();  // the caller's; the store is given a little less

  // As new, memory kept.
  void Clear();
};

// What a check may carry; beyond, it is refused with INVALID_ARGUMENT.
inline constexpr std::size_t kMaxDomainBytes = 255;
inline constexpr std::size_t kMaxAttributes = 64;
inline constexpr std::size_t kMaxAttributeNameBytes = 255;
inline constexpr std::size_t kMaxAttributeValueBytes = 8192;
inline constexpr Duration kMaxMaxWait = std::chrono::days(365);

// One limit's part in a decision.
struct LimitAnswer {
  const IndexedRule* rule = nullptr;  // lives as long as the call's answer
  std::uint32_t index = 0;            // in the rule's (or its override's) limits
  Algorithm algorithm = Algorithm::kFixedWindow;
  Source source = Source::kStore;
  // False: decided by `on_store_failure: allow` or `deny`; of `verdict` only `admitted` holds.
  bool state_known = true;
  Verdict verdict;
};

struct CheckAnswer {
  Decision decision = Decision::kAllowed;
  Source source = Source::kNoRule;
  Duration wait{};
  std::optional<Duration> retry_after;  // kDenied only; absent: never
  Time decided_at;
  std::vector<LimitAnswer> limits;
};

class CheckCall : private StoreCheck {
 public:
  explicit CheckCall(Limiter& limiter) : limiter_(limiter) {}
  virtual ~CheckCall() = default;

  // To be filled before Start; what it views must live until OnAnswer returns.
  CheckRequest request;

  // Decides the request and calls OnAnswer exactly once, on this or another thread, possibly
  // before Start returns. The call may be started again from then on.
  void Start();

 private:
  // `answer` is valid until the call is started again or dies. Must not block.
  virtual void OnAnswer(const Result<CheckAnswer>& answer) = 0;

  Result<void> Validate() const;
  void DecideWithoutStore(Decision decision, Source source);
  void OnDecided() override;
  void Answer();

  Limiter& limiter_;
  std::shared_ptr<const RuleIndex> rules_;
  MatchResult matched_;
  std::string keys_;
  Result<CheckAnswer> answer_ = CheckAnswer{};
};

}  // namespace sluice
