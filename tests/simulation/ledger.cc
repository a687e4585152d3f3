#include "tests/simulation/ledger.h"

#include <cstdlib>

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

using Counters = Script::Counters;

// The units that the counter of `key` counts, or the slots of live leases.
std::int64_t UsedOf(const Counters::value_type& entry) {
  CounterState state = entry.second.state;
  const auto* const slots = std::get_if<Concurrency::State>(&state);
  return slots != nullptr ? slots->counted : sluice::Used(entry.second.limit, state);
}

std::int64_t UsedIn(const Counters& counters, const std::string& key) {
  std::int64_t used = 0;
  for (const auto& entry : counters) {
    if (entry.first.find(key) != std::string::npos) used += UsedOf(entry);
  }
  return used;
}

std::int64_t UsedIn(const Deployment& redis, const std::string& key) {
  std::int64_t used = 0;
  redis.ForEachMaster([&](const Counters& counters) { used += UsedIn(counters, key); });
  return used;
}

// Slots by lease.
std::map<LeaseId, std::int64_t> LeasesIn(const Counters& counters, const std::string& key) {
  std::map<LeaseId, std::int64_t> leases;
  for (const auto& [name, counter] : counters) {
    const auto* const state = std::get_if<Concurrency::State>(&counter.state);
    if (state == nullptr || name.find(key) == std::string::npos) continue;
    for (const auto& [id, holder] : state->holders->by_id) leases[id] += holder.slots;
  }
  return leases;
}

// The slots of leases that are not in `b`.
std::int64_t OnlyIn(const std::map<LeaseId, std::int64_t>& a,
                    const std::map<LeaseId, std::int64_t>& b) {
  std::int64_t slots = 0;
  for (const auto& [id, held] : a) slots += b.contains(id) ? 0 : held;
  return slots;
}

}  // namespace

void Ledger::Ask(const std::string& key, const Counter& counter, std::int64_t cost) {
  Account& account = accounts_[key];
  account.counter = counter;
  account.asked += cost;
}

void Ledger::Admit(const std::string& key, std::int64_t cost, bool by_store) {
  Account& account = accounts_[key];
  (by_store ? account.by_store : account.by_fallback) += cost;
  const std::int64_t most = account.counter.limit + account.forgotten;
  if (account.counter.slots || account.by_store <= most) return;
  broken_.push_back(
      fmt::format("{}: the store admitted {} of {}", key, account.by_store, account.counter.limit));
}

void Ledger::Hold(const std::string& key, std::int64_t slots) {
  Account& account = accounts_[key];
  account.held += slots;
  if (account.held <= account.counter.limit + account.forgotten) return;
  broken_.push_back(
      fmt::format("{}: {} of {} slots are held", key, account.held, account.counter.limit));
}

void Ledger::GiveBack(const std::string& key, std::int64_t slots) { accounts_[key].held -= slots; }

void Ledger::TakeOver(const Counters& master, const Counters& standby) {
  for (auto& [key, account] : accounts_) {
    if (account.counter.slots) {
      const auto before = LeasesIn(master, key);
      const auto after = LeasesIn(standby, key);
      account.forgotten += OnlyIn(before, after);
      account.revived += OnlyIn(after, before);
    } else {
      const std::int64_t lost = UsedIn(master, key) - UsedIn(standby, key);
      (lost > 0 ? account.forgotten : account.revived) += std::abs(lost);
    }
  }
}

void Ledger::Judge(const Deployment& redis, const Circumstances& circumstances) {
  for (const auto& [key, account] : accounts_) {
    const std::int64_t used = UsedIn(redis, key);
    if (!account.counter.slots) {
      JudgeUnits(key, account, used, circumstances);
    } else if (used > account.lost + account.revived) {
      broken_.push_back(fmt::format("{}: {} slots are held by nobody", key, used));
    }
  }
}

void Ledger::JudgeUnits(const std::string& key, const Account& account, std::int64_t used,
                        const Circumstances& circumstances) {
  if (used < account.by_store - account.forgotten) {
    broken_.push_back(
        fmt::format("{}: the store counts {}, but admitted {}", key, used, account.by_store));
  }
  const std::int64_t denied = circumstances.in_doubt ? 0 : account.denied;
  if (used > account.asked - denied + account.revived) {
    broken_.push_back(fmt::format("{}: the store counts {} of {} asked for, {} of them denied", key,
                                  used, account.asked, account.denied));
  }
  // The store also counts some checks that fallback admitted, because its replies were late.
  const std::int64_t admitted = account.by_store + account.by_fallback;
  if (circumstances.local && admitted > 2 * account.counter.limit + account.forgotten) {
    broken_.push_back(fmt::format("{}: {} of {} were admitted, {} of them by fallback", key,
                                  admitted, account.counter.limit, account.by_fallback));
  }
}

std::string Ledger::Summary(const Deployment& redis) const {
  std::string summary;
  for (const auto& [key, account] : accounts_) {
    summary += fmt::format("{} {}\n", key, UsedIn(redis, key));
  }
  return summary;
}

}  // namespace sluice::simulation
