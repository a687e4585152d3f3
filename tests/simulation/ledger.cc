#include "tests/simulation/ledger.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

using Counters = Script::Counters;

const TrueCounter* Find(const Counters& counters, const std::string& name) {
  const auto found = counters.by_name.find(name);
  return found == counters.by_name.end() ? nullptr : &found->second;
}

// The units that are charged, or the slots of live leases.
std::int64_t UsedIn(const Counters& counters, const std::string& name, Time now) {
  const TrueCounter* const counter = Find(counters, name);
  if (counter == nullptr) return 0;
  if (!std::holds_alternative<Concurrency>(counter->limit)) return counter->counted();
  CounterState state = CopyOf(counter->state, counters.leases);
  Advance(counter->limit, state, now);
  return std::get<Concurrency::State>(state).counted;
}

std::int64_t UsedIn(const Deployment& redis, const std::string& name, Time now) {
  std::int64_t used = 0;
  redis.ForEachMaster([&](const Counters& counters) { used += UsedIn(counters, name, now); });
  return used;
}

// Units of grants that servers did not return, used or not.
std::int64_t UnreturnedIn(const Deployment& redis, const std::string& name) {
  std::int64_t units = 0;
  redis.ForEachMaster([&](const Counters& counters) {
    const TrueCounter* const counter = Find(counters, name);
    if (counter == nullptr) return;
    units += counter->ended + GrantsOutOf(counter->limit, counter->state).units();
  });
  return units;
}

std::map<LeaseId, Holder> LeasesIn(const Counters& counters, const std::string& name) {
  std::map<LeaseId, Holder> leases;
  const TrueCounter* const counter = Find(counters, name);
  if (counter == nullptr) return leases;
  const auto& state = std::get<Concurrency::State>(counter->state);
  for (const LeaseId& lease : counters.leases) {
    if (const Holder* const holder = state.holders->Find(lease)) leases.emplace(lease, *holder);
  }
  return leases;
}

// The slots of leases in `a` that are missing in `b`, or end earlier in `b` (a renewal was lost).
std::int64_t OnlyIn(const std::map<LeaseId, Holder>& a, const std::map<LeaseId, Holder>& b) {
  std::int64_t slots = 0;
  for (const auto& [id, holder] : a) {
    const auto found = b.find(id);
    if (found == b.end() || found->second.expires < holder.expires) slots += holder.slots;
  }
  return slots;
}

}  // namespace

void Ledger::Allow(const std::string& counter, const Limit& limit) {
  const auto* const bucket = std::get_if<TokenBucket>(&limit);
  const auto* const queue = std::get_if<LeakyBucket>(&limit);
  const auto* const window = std::get_if<FixedWindow>(&limit);
  Account& account = accounts_[counter];
  account.limit = std::max(account.limit, MostAtOnce(limit));
  account.slots = std::holds_alternative<Concurrency>(limit);
  account.refills |= std::holds_alternative<WarmingBucket>(limit) ||
                     (bucket != nullptr && bucket->rate > 1) ||
                     (queue != nullptr && queue->rate > 1) ||
                     (window != nullptr && window->window < std::chrono::hours(1));
}

void Ledger::Admit(const std::string& counter, std::int64_t cost, bool by_store) {
  Account& account = accounts_[counter];
  (by_store ? account.by_store : account.by_fallback) += cost;
  const std::int64_t most = account.limit + account.forgotten + account.returned;
  if (account.slots || account.refills || account.by_store <= most) return;
  broken_.push_back(
      fmt::format("{}: the store admitted {}; limit {}", counter, account.by_store, account.limit));
}

void Ledger::Hold(const std::string& counter, std::int64_t slots) {
  Account& account = accounts_[counter];
  account.held += slots;
  if (account.held <= account.limit + account.forgotten) return;
  broken_.push_back(
      fmt::format("{}: {} slots are held; limit {}", counter, account.held, account.limit));
}

void Ledger::GiveBack(const std::string& counter, std::int64_t slots) {
  accounts_[counter].held -= slots;
}

void Ledger::TakeOver(const Counters& master, const Counters& standby) {
  for (auto& [counter, account] : accounts_) {
    if (account.slots) {
      const auto before = LeasesIn(master, counter);
      const auto after = LeasesIn(standby, counter);
      account.forgotten += OnlyIn(before, after);
      account.revived += OnlyIn(after, before);
    } else {
      TakeOver(Find(master, counter), Find(standby, counter), account);
    }
  }
}

void Ledger::TakeOver(const TrueCounter* master, const TrueCounter* standby, Account& account) {
  const TrueCounter none;
  const TrueCounter& before = master == nullptr ? none : *master;
  const TrueCounter& after = standby == nullptr ? none : *standby;
  for (const std::int64_t lost :
       {before.charged - after.charged, before.charged_on_top - after.charged_on_top,
        after.given_back - before.given_back}) {
    (lost > 0 ? account.forgotten : account.revived) += std::abs(lost);
  }
}

void Ledger::Judge(const Deployment& redis, const Circumstances& circumstances) {
  for (const auto& [counter, account] : accounts_) {
    const std::int64_t used = UsedIn(redis, counter, circumstances.now);
    if (!account.slots) {
      JudgeUnits(counter, account, used, UnreturnedIn(redis, counter), circumstances);
      continue;
    }
    // Slots that a crashed server would have released stay held until they expire.
    const std::int64_t abandoned =
        circumstances.crashes == 0 ? 0 : account.by_fallback + account.unknown + account.denied;
    if (used > account.lost + account.revived + abandoned) {
      broken_.push_back(fmt::format("{}: {} slots are held without a holder", counter, used));
    }
  }
}

void Ledger::JudgeUnits(const std::string& counter, const Account& account, std::int64_t used,
                        std::int64_t unreturned, const Circumstances& circumstances) {
  if (used < account.by_store - account.forgotten + account.settled_least) {
    broken_.push_back(fmt::format("{}: the store counts {}, but admitted {}; {} from settlements",
                                  counter, used, account.by_store, account.settled_least));
  }
  const std::int64_t admitted = account.by_store + account.by_fallback;
  const std::int64_t denied = circumstances.in_doubt ? account.denied : 0;
  const std::int64_t settled = account.settled_most;
  const std::int64_t uncertain =
      account.unknown + denied + account.revived + account.kept + unreturned;
  if (used > admitted + uncertain + settled) {
    broken_.push_back(
        fmt::format("{}: the store counts {}; admitted {}, perhaps {} more; {} from settlements",
                    counter, used, admitted, uncertain, settled));
  }
  // Some checks count twice: in the store and, because its replies were late, by fallback.
  const std::int64_t most = (2 + circumstances.crashes + account.resets) * account.limit;
  const std::int64_t more = account.forgotten + account.returned + circumstances.in_flight;
  if (circumstances.local && !account.refills && admitted > most + more) {
    broken_.push_back(fmt::format("{}: {} were admitted; limit {}; {} of them by fallback", counter,
                                  admitted, account.limit, account.by_fallback));
  }
}

std::string Ledger::Summary(const Deployment& redis, Time now) const {
  std::string summary;
  for (const auto& [counter, account] : accounts_) {
    summary += fmt::format("{} {}\n", counter, UsedIn(redis, counter, now));
  }
  return summary;
}

}  // namespace sluice::simulation
