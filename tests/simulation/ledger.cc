#include "tests/simulation/ledger.h"

#include <fmt/format.h>

namespace sluice::simulation {
namespace {

std::string HashTagOf(const std::string& key) { return "{shop/" + key + "}"; }

}  // namespace

void Ledger::Ask(const std::string& key, const Counter& counter, std::int64_t cost) {
  Account& account = accounts_[key];
  account.counter = counter;
  account.asked += cost;
}

void Ledger::Admit(const std::string& key, std::int64_t cost, bool by_store) {
  Account& account = accounts_[key];
  (by_store ? account.by_store : account.by_fallback) += cost;
  if (account.counter.slots || account.by_store <= account.counter.limit) return;
  broken_.push_back(
      fmt::format("{}: the store admitted {} of {}", key, account.by_store, account.counter.limit));
}

void Ledger::Hold(const std::string& key, std::int64_t slots) {
  Account& account = accounts_[key];
  account.held += slots;
  if (account.held <= account.counter.limit) return;
  broken_.push_back(
      fmt::format("{}: {} of {} slots are held", key, account.held, account.counter.limit));
}

void Ledger::GiveBack(const std::string& key, std::int64_t slots) { accounts_[key].held -= slots; }

void Ledger::Judge(const RedisServer& redis, bool local) {
  for (const auto& [key, account] : accounts_) {
    const std::int64_t used = redis.Used(HashTagOf(key));
    if (!account.counter.slots) {
      JudgeUnits(key, account, used, local);
    } else if (used > account.lost) {
      broken_.push_back(fmt::format("{}: {} slots are held by nobody", key, used));
    }
  }
}

void Ledger::JudgeUnits(const std::string& key, const Account& account, std::int64_t used,
                        bool local) {
  if (used < account.by_store) {
    broken_.push_back(
        fmt::format("{}: the store counts {}, but admitted {}", key, used, account.by_store));
  }
  if (used > account.asked) {
    broken_.push_back(
        fmt::format("{}: the store counts {} of {} asked for", key, used, account.asked));
  }
  // Some that passed by fallback are counted by the store as well: its replies came too late.
  const std::int64_t admitted = account.by_store + account.by_fallback;
  if (local && admitted > 2 * account.counter.limit) {
    broken_.push_back(fmt::format("{}: {} of {} were admitted, {} of them by fallback", key,
                                  admitted, account.counter.limit, account.by_fallback));
  }
}

std::string Ledger::Summary(const RedisServer& redis) const {
  std::string summary;
  for (const auto& [key, account] : accounts_) {
    summary += fmt::format("{} {}\n", key, redis.Used(HashTagOf(key)));
  }
  return summary;
}

}  // namespace sluice::simulation
