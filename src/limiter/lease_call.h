// One call about a lease: renews, settles, releases or reads it. A front end derives from
// LeaseCall, calls Start, and receives the answer in OnLease. From then on, the call may be started
// again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "limiter/check_request.h"
#include "limiter/lease_name.h"
#include "limiter/limiter.h"
#include "store/store.h"

namespace sluice {

// One limit of a lease of units.
struct LeasedLimit {
  LeaseName::Counter counter;
  std::int64_t held = 0;   // before this call
  std::int64_t units = 0;  // used
  Source source = Source::kStore;
  Verdict verdict;
};

struct LeaseReport {
  LeaseOutcome outcome = LeaseOutcome::kSettled;  // kInspect: kSettled if the lease is open
  Duration ttl{};                                 // kRenew: what remains
  Time ends;                                   // kInspect: when the lease ends if it is not renewed
  std::vector<LeasedLimit> limits;             // of a lease of units, if kSettled
  std::vector<std::string> uncounted_amounts;  // that no limit of the lease counts
  std::vector<LeaseName::Amount> taken;        // the amounts with which the lease was taken
};

// How a hold of slots went. The numbers are those of the API.
enum class HoldOutcome : std::uint8_t { kOk = 1, kOverload = 2, kIgnore = 3 };

// What was used of a lease, and how the work went. Amounts that are not given stay as they were
// taken.
struct LeaseUsage {
  std::optional<std::int64_t> cost = {};
  std::span<const Amount> amounts = {};
  HoldOutcome outcome = HoldOutcome::kOk;
  std::optional<Duration> duration = {};  // instead of the time for which slots were held
};

class LeaseCall : private StoreCheck {
 public:
  // kRelease settles with what was taken. kInspect is only for leases of units.
  enum class Action { kRenew, kRelease, kSettle, kInspect };

  using Usage = LeaseUsage;

  explicit LeaseCall(Limiter& limiter) : limiter_(limiter) {}

  // Runs the action and calls OnLease exactly once, on the same thread, possibly before Start
  // returns. `caller_deadline` is the caller's deadline. `usage` is for kSettle; for kRelease, only
  // its last two members may be set.
  void Start(Action action, std::string_view lease_id, SteadyTime caller_deadline,
             const Usage& usage = {});

 private:
  // Errors: kInvalidArgument: malformed id or amounts. kNotFound: the lease to renew has expired or
  // was released, and cannot be taken again. kUnavailable: the store failed, or perhaps does not
  // have the lease yet. kDeadlineExceeded: the caller's deadline passed. After the last two errors,
  // the lease is held until it expires, unless the message says that it will be settled.
  virtual void OnLease(const Result<LeaseReport>& report) = 0;

  void OnDecided() override;

  Result<void> Interpret(const Usage& usage);
  void ReportHold(const Usage& usage);
  void AskStore();
  void OnDecidedHere();
  bool MayNotBeReportedYet() const;
  void OnFailure(StoreFailure failure);
  void Report(LeaseOutcome outcome);
  HoldResult ResultOf(const Adaptation& adapt) const;
  void CountHolds() const;

  Limiter& limiter_;
  LeaseName name_;            // owns the keys and limits of the counters
  std::vector<Limit> local_;  // this server's shares of these limits
  LeaseReport report_;
  bool by_fallback_ = false;       // asks this server's memory
  bool asks_for_another_ = false;  // asks the store about a lease of another server
};

}  // namespace sluice
