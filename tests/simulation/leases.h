// Uses leases as callers do, and tests that each lease has at most one effect. Leases of slots are
// released after a while. Leases of units may be renewed. They are released, or settled with fewer
// or more units than they took: once, several times, or never. Any server may get these calls.
// Requests are canceled, lost and repeated.
//
// One thread.
#pragma once

#include <sluice/v1/rate_limiter.pb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/fleet.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/report.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

// The part of a lease that one limit has granted.
struct LeasedLimit {
  std::vector<std::string> counters;  // the lease holds units of one of these
  std::int64_t units = 0;
  Limit limit;
  bool in_store = false;          // otherwise the server decided by itself
  bool counted_by_store = false;  // in the ledger

  bool is_known() const { return counters.size() == 1; }
};

struct TakenLease {
  std::string id;
  bool of_units = false;
  Duration ttl{};
  std::int64_t server = 0;
  SteadyTime asked;
  std::vector<LeasedLimit> limits;
};

class Leases {
 public:
  struct Context {
    World& world;
    Fleet& fleet;
    Ledger& ledger;
    Report& report;
  };
  // All members of `context` must outlive this object.
  explicit Leases(const Context& context) : context_(context) {}

  // A caller got a lease, and now uses it.
  void OnTaken(TakenLease taken);

  // Called at the end. Reports to the ledger the units that settlements have given back or added.
  void Judge();

 private:
  enum class Fate { kUnknown, kSettled, kAlreadySettled, kNotFound, kQueued };

  // A message that settles or releases a lease.
  struct Attempt {
    std::int64_t server = 0;
    std::optional<std::int64_t> cost;  // used; empty: as taken
    std::optional<std::int64_t> tokens;
    bool releases = false;
    Fate fate = Fate::kUnknown;
    std::int64_t crashes = 0;             // of `server`, when the attempt ended
    std::vector<std::int64_t> dropped{};  // by limit, if settled
    std::vector<std::int64_t> held{};

    std::int64_t UsedOf(const LeasedLimit& limit) const;
    bool MayChange(const LeasedLimit& limit, std::size_t index) const;
    // Whether this was the first settlement of the limit. The counters of a lease may be on several
    // nodes, and each node has its own first settlement.
    bool IsFirst(const LeasedLimit& limit, std::size_t index) const {
      return fate == Fate::kSettled && limit.units > 0 && held[index] == limit.units;
    }
  };

  struct Lease {
    TakenLease taken;
    SteadyTime ends;  // its slots end then or later
    bool holds_slots = false;
    std::vector<std::unique_ptr<Attempt>> attempts;
    std::vector<std::int64_t> returned;  // by limit: units that attempts may have given back

    bool IsInStore() const;  // whether the store decided at least one of its limits
  };

  struct Range {
    std::int64_t least = 0;
    std::int64_t most = 0;
  };

  void Hold(Lease& lease);
  void GiveBackSlots(Lease& lease);
  void EndSlots(Lease& lease);
  void Release(Lease& lease);
  void PlanUnits(Lease& lease);
  void Renew(Lease& lease);
  Attempt DrawAttempt();
  void Settle(Lease& lease, Attempt attempt);
  void OnSettled(Lease& lease, Attempt& attempt, const Caller::Outcome& outcome);
  void JudgeAnswer(const Lease& lease, Attempt& attempt, const v1::SettleLeaseResponse& response);
  void JudgeLease(const Lease& lease);
  void JudgeLimit(const Lease& lease, std::size_t limit);
  Range EffectOf(const Lease& lease, std::size_t limit) const;
  // Whether Redis still has all writes.
  bool Remembers() const { return context_.fleet.redis().failovers() == 0; }
  bool IsApplied(const Attempt& attempt) const;
  std::int64_t AnyServer() {
    return static_cast<std::int64_t>(context_.world.Below(Fleet::kServers));
  }
  v1::HoldOutcome DrawOutcome() const {
    const v1::HoldOutcome outcomes[] = {v1::HOLD_OUTCOME_OK, v1::HOLD_OUTCOME_OK,
                                        v1::HOLD_OUTCOME_OVERLOAD, v1::HOLD_OUTCOME_IGNORE};
    return context_.world.Pick(outcomes);
  }
  // Calls `server`. May cancel the call later.
  void Call(std::int64_t server, const char* method, const std::string& request,
            Caller::OnOutcome on_outcome);
  void Break(std::string what) { context_.report.broken.push_back(std::move(what)); }

  const Context context_;
  std::vector<std::unique_ptr<Lease>> leases_;
  bool over_ = false;
};

}  // namespace sluice::simulation
