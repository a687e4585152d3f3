// One call of the check script: the runs of equal checks it carries, encoded; and its reply,
// decoded. The format is described in scripts/lua/check.lua. No I/O.
//
// Not thread-safe. Reused call after call: memory is kept.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/counter.h"
#include "store/store.h"

namespace sluice::redis {

// What the script answers to one run.
struct RunReply {
  std::string_view error;    // why the run failed; empty if it did not
  Time now;                  // when it was decided, on the clock of the script
  std::int64_t granted = 0;  // by the enforced limits; the whole run if there are none
  // By counter: the grants of its group, and what is known of it.
  std::vector<std::int64_t> group_grants;
  std::vector<CounterReport> reports;

  // Fills in the answer to the check at `index` of the run. REQUIRES: error is empty.
  void Answer(StoreCheck& check, std::int64_t index) const;
};

class ScriptCall {
 public:
  static constexpr std::size_t kMaxRuns = 64;
  // What keeps a script run well below 1 ms: counters, those that take more calls weighing more.
  static constexpr std::size_t kMaxWeight = 128;
  // What Lua can unpack at once, with room to spare.
  static constexpr std::size_t kMaxNumbers = 4000;

  void Clear();

  // Whether there is room for one more run like `check`.
  bool HasRoomFor(const StoreCheck& check) const;

  // Adds `n` checks equal to `check`. It, its keys and limits must live until the call is encoded.
  void Add(const StoreCheck& check, std::int64_t n);

  std::size_t runs() const { return runs_; }

  // The arguments after EVALSHA <sha>: number of declared keys, keys, leases, blob. Valid until the
  // next change. A call that declares its keys may touch one slot of a cluster only. `now` is the
  // time the script is to believe in; by default it asks Redis.
  std::span<const std::string_view> Arguments(bool declares_keys = true, Time now = Time());

 private:
  std::uint32_t IndexOfKey(std::string_view key);
  void EnlargeKeyTable();
  std::uint32_t IndexOfLimit(const Limit* limit);
  std::uint32_t IndexOfRequest(const StoreCheck& check);
  void AddLease(const Lease& lease);

  static constexpr std::size_t kLeaseBytes = sizeof(LeaseId) + sizeof(double);

  std::size_t runs_ = 0;
  std::size_t weight_ = 0;
  std::vector<std::string_view> keys_;
  // Open addressing: by hash, indices of keys, from 1; 0 is free. At most half full.
  std::vector<std::uint32_t> key_table_ = std::vector<std::uint32_t>(512);
  std::vector<const Limit*> limits_;
  std::vector<double> limit_numbers_;
  std::vector<const StoreCheck*> requests_;  // of checks that ask alike, one
  std::vector<double> request_numbers_;
  std::vector<double> check_numbers_;
  std::string leases_;  // kLeaseBytes each
  std::string declared_;
  std::string blob_;
  std::vector<std::string_view> arguments_;
};

// Reads the reply of one ScriptCall, run by run, in the order they were added.
class ScriptReply {
 public:
  // `elements` of the script's reply: the blob, then messages. Their bytes must outlive this.
  static Result<ScriptReply> Open(std::vector<std::string_view> elements);

  // Reads the reply to a run of `n` checks like `check`. False if the blob ends before.
  bool Next(const StoreCheck& check, std::int64_t n, RunReply& reply);

  Time now() const { return now_; }

 private:
  bool Take(double& number);
  bool Take(std::int64_t& number);
  bool TakeError(std::int64_t message, RunReply& reply) const;

  std::string_view blob_;  // what has not been read yet
  std::vector<std::string_view> elements_;
  Time now_;
};

}  // namespace sluice::redis
