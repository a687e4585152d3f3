// What callers were told of every counter, and whether that is what was promised: never more than
// the limit by the store, every unit counted that was admitted, none counted twice or for a check
// that was denied, no slot held by nobody. Excepted is what a master had not replicated when it was
// lost.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/simulation/deployment.h"

namespace sluice::simulation {

class Ledger {
 public:
  // A counter, by what its key in Redis contains.
  struct Counter {
    std::int64_t limit = 0;
    bool slots = false;  // of leases; else units
  };

  // A call that may reach Redis asks for `cost`.
  void Ask(const std::string& key, const Counter& counter, std::int64_t cost);

  void Admit(const std::string& key, std::int64_t cost, bool by_store);
  // Nothing of it stays charged.
  void Deny(const std::string& key, std::int64_t cost) { accounts_[key].denied += cost; }

  // Slots that the store granted are held, or not any more.
  void Hold(const std::string& key, std::int64_t slots);
  void GiveBack(const std::string& key, std::int64_t slots);

  // The answer was on its way when its connection was cut. No server can know whether it arrived,
  // so a lease that it names holds until its time is over.
  void Lose(const std::string& key, std::int64_t cost) { accounts_[key].lost += cost; }

  // A standby became master with what it had of its master's counters.
  void TakeOver(const Script::Counters& master, const Script::Counters& standby);

  // At the end.
  struct Circumstances {
    bool local;     // servers went on by themselves, each with its share of one more limit
    bool in_doubt;  // of some calls or undos it is not known whether they ran
  };
  void Judge(const Deployment& redis, const Circumstances& circumstances);

  // Promises that were broken, each with what was found.
  const std::vector<std::string>& broken() const { return broken_; }

  // What the store counts, for each counter.
  std::string Summary(const Deployment& redis) const;

 private:
  struct Account {
    Counter counter;
    std::int64_t asked = 0;
    std::int64_t denied = 0;
    std::int64_t by_store = 0;
    std::int64_t by_fallback = 0;
    std::int64_t held = 0;
    std::int64_t lost = 0;
    // By failovers: counted no more, and counted again.
    std::int64_t forgotten = 0;
    std::int64_t revived = 0;
  };

  void JudgeUnits(const std::string& key, const Account& account, std::int64_t used,
                  const Circumstances& circumstances);

  std::map<std::string, Account> accounts_;
  std::vector<std::string> broken_;
};

}  // namespace sluice::simulation
