// One call of the check script: encodes the entries (each stands for one or more equal checks) and
// decodes the reply. The format is described in scripts/lua/check.lua. No I/O.
//
// Not thread-safe. Reusable: memory is kept between calls.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/algorithm/counter.h"
#include "store/store.h"

namespace sluice::redis {

// Whether `check` is a charge that may be coalesced: it charges a single fixed window, and has no
// lease.
bool MayCoalesceCharge(const StoreCheck& check);

// Whether `check` reads or writes the record of a lease of units. The record's key must then be
// declared.
bool UsesRecord(const StoreCheck& check);

// Whether `n` checks equal to `check` are plain: if a call carries only these checks, the script
// may decide it by the fast path (scripts/lua/lone.lua).
bool IsPlain(const StoreCheck& check, std::int64_t n);

// The script's reply to one counter of an entry.
struct CounterReply {
  std::int64_t group_grants = 0;  // how many checks its group admits
  CounterReport report;
  std::int64_t held = 0;  // see EntryReply::settled
  // Set if the check concerns grants.
  Grant grant{};
  GrantsOut grants_out{};
};

// The script's reply to one entry.
struct EntryReply {
  std::string_view error;  // why the entry failed; empty on success
  Time now;                // time of the decision, on the script's clock
  // How many checks the enforced limits granted; all if there are no such limits. For charges: how
  // many are within the limit.
  std::int64_t granted = 0;
  std::vector<CounterReply> counters;
  // Set if the check reads the record of a lease. See StoreCheck::settled.
  Settled settled = Settled::kNotFound;
  Time lease_ends;

  // Fills in the answer to the check at `index` of the entry. REQUIRES: error is empty.
  void Answer(StoreCheck& check, std::int64_t index) const;
};

class ScriptCall {
 public:
  static constexpr std::size_t kMaxEntries = 64;
  // The maximum weight of a call with several entries, which keeps the call well below 1 ms. The
  // weight is the number of counters, weighted by the cost of their algorithms.
  static constexpr std::size_t kMaxWeight = 128;

  void Clear();

  // Whether there is room for another entry like `check`.
  bool HasRoomFor(const StoreCheck& check) const;

  // Adds `n` checks equal to `check`. `check`, its keys and its limits must live until the result
  // of Arguments has been used. REQUIRES: HasRoomFor(check)
  void Add(const StoreCheck& check, std::int64_t n);

  // Whether the script may decide the call by the fast path: the only entry is plain, and no two of
  // its counters share a limit.
  bool is_lone() const { return lone_ && limits_.size() == keys_.size(); }

  // The arguments after EVALSHA <sha>: number of declared keys, keys, records, leases, blob. Valid
  // until the next change. A call that declares its keys may use only one slot of a Cluster. A call
  // with records always declares its keys and records, even if `declares_keys` is false. `now` is
  // the time for the script; by default, the script reads Redis' clock.
  std::span<const std::string_view> Arguments(bool declares_keys = true, Time now = Time());

 private:
  std::uint32_t IndexOfKey(const HashedKey& key);
  std::uint32_t IndexOfLimit(const Limit* limit);
  std::uint32_t IndexOfRequest(const StoreCheck& check);
  void AddLease(const Lease& lease);
  void AddGrants(const CounterCheck& counter);
  std::uint32_t IndexOfRecord(const CounterCheck& counter, const Lease& lease);

  std::size_t entries_ = 0;
  bool lone_ = false;  // the only entry is plain
  std::size_t weight_ = 0;
  std::vector<std::string_view> keys_;
  // A hash table with open addressing: the indices, from 1, of the first kMaxWeight keys. A 0
  // marks a free element.
  std::array<std::uint32_t, 4 * kMaxWeight> key_table_{};
  std::vector<const Limit*> limits_;
  std::vector<double> limit_numbers_;
  std::vector<const StoreCheck*> requests_;  // one per distinct demand
  std::vector<double> request_numbers_;
  std::vector<double> check_numbers_;
  std::vector<std::string> records_;  // keys
  std::string leases_;
  std::vector<std::size_t> lease_ends_;  // in leases_
  std::string declared_;
  std::string blob_;
  std::vector<std::string_view> arguments_;
};

// Reads the reply of one ScriptCall, entry by entry, in the order in which the entries were added.
class ScriptReply {
 public:
  // `elements` are the elements of the script's reply: the blob, then messages. Their bytes must
  // outlive this.
  static Result<ScriptReply> Open(std::vector<std::string_view> elements);

  // Reads the reply to an entry of `n` checks like `check`. Returns false if the blob ends too
  // early.
  bool Next(const StoreCheck& check, std::int64_t n, EntryReply& reply);

  Time now() const { return now_; }

 private:
  bool Take(double& number);
  bool Take(std::int64_t& number);
  bool TakeLease(EntryReply& reply);
  bool TakeGrants(EntryReply& reply);
  bool TakeError(std::int64_t message, EntryReply& reply) const;

  std::string_view blob_;  // the unread part
  std::vector<std::string_view> elements_;
  Time now_;
};

}  // namespace sluice::redis
