// The correct counters of a schedule: each counts exactly one thing and never expires. Keeps every
// state that a counter has had, to check what servers remember.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithm/counter.h"

namespace sluice::simulation {

// A correct counter.
struct TrueCounter {
  std::string key;  // in Redis
  Limit limit;
  CounterState state;
  Time matters_until;        // until then, checks depend on `state`
  std::int64_t charged = 0;  // units, less those undone
  // Units given back, and units charged in addition, when leases of units were settled.
  std::int64_t given_back = 0;
  std::int64_t charged_on_top = 0;
  std::int64_t granted = 0;  // units of all grants
  std::int64_t ended = 0;    // units, used or not, of grants that ended without being returned

  std::int64_t counted() const { return charged + charged_on_top - given_back; }
};
using TrueCounters = std::map<std::string, TrueCounter, std::less<>>;

class Model {
 public:
  // The name of the counter that a call to Redis concerns.
  using NameOf = std::function<std::string(const Limit& limit, std::string_view key)>;

  explicit Model(NameOf name_of) : name_of_(std::move(name_of)) {}

  std::string NameOfCounter(const Limit& limit, std::string_view key) const {
    return name_of_(limit, key);
  }

  static constexpr int kNoServer = -1;  // the change was a failover or an expiry
  static constexpr int kEnded = -2;     // instead of the number of a server that has crashed

  // A check, or a part of a lease, whose units were given back.
  struct Undone {
    std::int64_t units = 0;
    Time since;  // when it was decided, or earlier
  };

  // A change of a counter by Redis.
  struct Change {
    Time at;
    int server = kNoServer;  // that sent the call
    std::string key;
    Limit limit;
    CounterState state;  // after the change
    bool gives_back = false;
    bool settles = false;  // settles a lease, or returns a grant
    bool opens = false;    // the counter starts again, whatever its limit
    std::optional<Undone> undone{};
  };
  void Record(const std::string& counter, Change change);
  const std::map<std::string, std::vector<Change>>& changes() const { return changes_; }

  // A standby was promoted with its copy of its master's counters.
  void TakeOver(const TrueCounters& master, const TrueCounters& standby, Time now);

  // Records that Redis decided differently from the true counters.
  void RecordUntrue(std::string what) { untrue_.push_back(std::move(what)); }
  const std::vector<std::string>& untrue() const { return untrue_; }

  struct Period {
    Time begin;
    Time end;
  };
  // Whether a check would have been denied at some time in the period.
  bool Denies(const std::string& counter, const Limit& limit, const CounterDemand& demand,
              const Period& period) const;
  // Whether a change that `server` did not make gave units back during the period. Also true if the
  // counter had another limit, whose rate may have added units.
  bool OthersGaveBack(const std::string& counter, const Limit& limit, int server,
                      const Period& period) const;

  // Whether `server` settled a lease, or returned a grant, during the period.
  bool Settled(const std::string& counter, int server, const Period& period) const;

  // The states that a server may have seen at `at`: before or after each change at that time.
  // If no change is earlier than `at`, these include the state of a new counter of `limit`.
  std::vector<CounterState> StatesAt(const std::string& counter, const Limit& limit, Time at) const;

 private:
  const NameOf name_of_;
  std::map<std::string, std::vector<Change>> changes_;  // by counter, oldest first
  std::vector<std::string> untrue_;
};

// How many units are left.
std::int64_t FreeIn(const Limit& limit, CounterState state, Time now);

// Forgets which units servers hold by grants.
void ForgetGrants(CounterState& state);

// A copy that shares nothing with `state`. If leases hold slots of `state`, the copy has only the
// leases that are also in `leases`.
CounterState CopyOf(const CounterState& state, const std::set<LeaseId>& leases);

}  // namespace sluice::simulation
