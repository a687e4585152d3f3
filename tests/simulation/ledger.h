// Records the answers that callers got for every counter, and checks these promises. The store
// never admits more than the limit. It counts every admitted unit once, and no denied unit. It
// applies the settlement of a lease once. No slot is held without a holder. The promises do not
// hold for data that a lost master had not replicated.
//
// One thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/deployment.h"

namespace sluice::simulation {

class Ledger {
 public:
  // Records the limit of a counter in a version of the rules.
  void Allow(const std::string& counter, const Limit& limit);

  void Admit(const std::string& counter, std::int64_t cost, bool by_store);
  // Records a denial: none of its units may stay charged.
  void Deny(const std::string& counter, std::int64_t cost) { accounts_[counter].denied += cost; }
  // Records that the caller does not know the outcome.
  void Doubt(const std::string& counter, std::int64_t cost) { accounts_[counter].unknown += cost; }

  // Whether any of the counters loses units as time passes during a schedule.
  bool Refills(const std::vector<std::string>& counters) const {
    return std::any_of(counters.begin(), counters.end(),
                       [&](const auto& it) { return accounts_.at(it).refills; });
  }

  // Records that a caller holds slots that the store granted.
  void Hold(const std::string& counter, std::int64_t slots);
  // Records that a caller no longer holds them.
  void GiveBack(const std::string& counter, std::int64_t slots);

  // The connection was cut before the caller got the answer. No server can know that, so a lease in
  // the answer stays valid until its ttl has passed.
  void Lose(const std::string& counter, std::int64_t cost) { accounts_[counter].lost += cost; }

  // A settlement is sent: from now on, units may be given back and admitted again.
  void Return(const std::string& counter, std::int64_t units) {
    accounts_[counter].returned += units;
  }
  // Records units that may stay charged after an undo: the check took a lease, and the limit does
  // not refund in full.
  void Keep(const std::string& counter, std::int64_t units) { accounts_[counter].kept += units; }
  // Called at the end: settlements have changed the counter by between `least` and `most` units.
  void Settle(const std::string& counter, std::int64_t least, std::int64_t most) {
    accounts_[counter].settled_least += least;
    accounts_[counter].settled_most += most;
  }

  // A standby was promoted with its copy of its master's counters.
  void TakeOver(const Script::Counters& master, const Script::Counters& standby);

  // The counter was reset. Servers also forget what they have admitted by fallback.
  void Reset(const std::string& counter) { ++accounts_[counter].resets; }

  // At the end.
  struct Circumstances {
    // In an outage, servers decide locally, each with its share of the limit. Together they may
    // admit the limit a second time.
    bool local;
    bool in_doubt;         // it is unknown whether some calls or undos ran
    std::int64_t crashes;  // of servers
    // Units that servers admitted for checks which were in flight when an outage began.
    std::int64_t in_flight;
    Time now;
  };
  void Judge(const Deployment& redis, const Circumstances& circumstances);

  // The broken promises, each with the values found.
  const std::vector<std::string>& broken() const { return broken_; }

  // The units that the store counts, per counter.
  std::string Summary(const Deployment& redis, Time now) const;

 private:
  struct Account {
    std::int64_t limit = 0;  // the highest
    bool slots = false;      // whether it counts slots of leases, not units
    bool refills = false;    // whether units leave during a schedule
    std::int64_t denied = 0;
    std::int64_t unknown = 0;
    std::int64_t by_store = 0;
    std::int64_t by_fallback = 0;
    std::int64_t held = 0;
    std::int64_t lost = 0;
    std::int64_t kept = 0;
    std::int64_t returned = 0;
    std::int64_t settled_least = 0;
    std::int64_t settled_most = 0;
    std::int64_t forgotten = 0;  // units that the store no longer counts because of failovers
    std::int64_t revived = 0;    // units that the store counts again because of failovers
    std::int64_t resets = 0;
  };

  static void TakeOver(const TrueCounter* master, const TrueCounter* standby, Account& account);
  void JudgeUnits(const std::string& counter, const Account& account, std::int64_t used,
                  std::int64_t unreturned, const Circumstances& circumstances);

  std::map<std::string, Account> accounts_;
  std::vector<std::string> broken_;
};

}  // namespace sluice::simulation
