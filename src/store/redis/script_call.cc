#include "store/redis/script_call.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "store/redis/script.h"
#include "store/redis/slot.h"

namespace sluice::redis {
namespace {

constexpr double kVersion = 10;

// Sizes in the blob. kHead numbers precede the first request. lone.lua always reads
// kFewestParameters numbers after the first two of a limit, so this many zeros follow the last
// limit.
constexpr std::size_t kHead = 8;
constexpr std::size_t kFewestParameters = 5;

static_assert(std::endian::native == std::endian::little, "numbers travel as little-endian");

// The script's encoding of an absent time.
constexpr double kNone = -1;

double ScriptNumber(std::string_view algorithm) {
  const auto found =
      std::find(kCheckScript.algorithms.begin(), kCheckScript.algorithms.end(), algorithm);
  return static_cast<double>(found - kCheckScript.algorithms.begin() + 1);
}

// Appends a limit in the script's format: algorithm, number of parameters, parameters.
template <typename Algorithm>
void AppendLimit(const Algorithm& limit, std::vector<double>& out) {
  static const double number = ScriptNumber(Algorithm::kScript);
  const auto parameters = limit.ScriptParameters();
  out.insert(out.end(), {number, static_cast<double>(parameters.size())});
  out.insert(out.end(), parameters.begin(), parameters.end());
}

// The weight of a check for the script. A counter that is stored as a string weighs 1.
std::size_t WeightOf(const StoreCheck& check) {
  std::size_t weight = UsesRecord(check) || check.concerns_grants ? 2 : 0;
  for (const CounterCheck& counter : check.counters) {
    const CounterDemand demand = check.DemandOf(counter);
    weight += std::visit([&](const auto& algorithm) { return algorithm.ScriptWeight(demand); },
                         *counter.limit);
  }
  return weight;
}

// The number that encodes the longest wait, or for kRefund the time of the charge.
double TimeOf(const Demand& demand) {
  if (demand.mode == Mode::kRefund) {
    return demand.charged_at ? static_cast<double>(demand.charged_at->time_since_epoch().count())
                             : kNone;
  }
  if (!demand.max_wait) return kNone;
  const auto wait = static_cast<double>(demand.max_wait->count());
  return demand.only_delays ? kNone - 1 - wait : wait;
}

// A check with more counters is decided by the loops of check.lua.
constexpr std::size_t kMostOfLone = 16;

// The script's number for the lease of the check: 0 none, 1 without a record, 2 with a record. 3:
// no lease, but the check concerns grants.
double LeaseKindOf(const StoreCheck& check) {
  if (check.concerns_grants) return 3;
  if (!check.lease) return 0;
  return UsesRecord(check) ? 2 : 1;
}

// Whether the check reads the lease's record, so that the reply begins with what became of the
// lease. kConsume writes the record without reading it.
bool ReadsRecord(const StoreCheck& check) {
  return UsesRecord(check) && check.demand.mode != Mode::kConsume;
}

// Whether two checks have the same demand, kind of lease, limits and groups.
bool HaveEqualDemand(const StoreCheck& a, const StoreCheck& b) {
  return a.demand == b.demand && LeaseKindOf(a) == LeaseKindOf(b) &&
         std::equal(a.counters.begin(), a.counters.end(), b.counters.begin(), b.counters.end(),
                    [](const CounterCheck& x, const CounterCheck& y) {
                      return x.limit == y.limit && x.group == y.group;
                    });
}

void AppendBytes(std::string& out, std::span<const double> numbers) {
  out.append(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
}

}  // namespace

bool MayCoalesceCharge(const StoreCheck& check) {
  return check.demand.mode == Mode::kCharge && !check.lease && check.counters.size() == 1 &&
         MayCoalesceCharges(*check.counters.front().limit);
}

bool UsesRecord(const StoreCheck& check) {
  const Mode mode = check.demand.mode;
  return check.leases_units && mode != Mode::kPeek && mode != Mode::kRefund && mode != Mode::kUndo;
}

bool IsPlain(const StoreCheck& check, std::int64_t n) {
  if (UsesRecord(check) || check.concerns_grants) return false;
  if (!check.demand.consumes_or_peeks() || check.counters.size() > kMostOfLone) return false;
  // If the check is a peek or has several limits, lone.lua does not decide coalesced checks.
  if (n > 1 && (check.counters.size() > 1 || check.demand.mode == Mode::kPeek)) return false;
  return std::all_of(check.counters.begin(), check.counters.end(),
                     [](const CounterCheck& counter) { return counter.group == 0; });
}

void EntryReply::Answer(StoreCheck& check, std::int64_t index) const {
  check.admitted = index < granted;
  check.decided_at = now;
  const bool has_lease = ReadsRecord(check);
  if (has_lease) {
    check.settled = settled;
    check.lease_ends = lease_ends;
    const bool lasts = settled == Settled::kSettled && lease_ends > now;
    check.admitted &= check.demand.mode != Mode::kRenew || lasts;
  }
  const bool is_charge = MayCoalesceCharge(check);
  for (std::size_t i = 0; i < check.counters.size(); ++i) {
    CounterCheck& counter = check.counters[i];
    const CounterReply& its = counters[i];
    if (has_lease) counter.held = its.held;
    if (check.concerns_grants) {
      counter.grant = its.grant;
      counter.grants_out = its.grants_out;
    }
    const CoalescedChecks checks{
        .demand = check.DemandOf(counter), .granted = its.group_grants, .now = now};
    const CounterReport report =
        is_charge ? ReportOfCharge(*counter.limit, its.report, checks, index) : its.report;
    sluice::Answer(counter, report, checks, index);
  }
}

void ScriptCall::Clear() {
  entries_ = 0;
  weight_ = 0;
  keys_.clear();
  key_table_.fill(0);
  limits_.clear();
  limit_numbers_.clear();
  requests_.clear();
  request_numbers_.clear();
  check_numbers_.clear();
  records_.clear();
  leases_.clear();
  lease_ends_.clear();
}

bool ScriptCall::HasRoomFor(const StoreCheck& check) const {
  if (entries_ == 0) return true;
  return entries_ < kMaxEntries && weight_ + WeightOf(check) <= kMaxWeight;
}

void ScriptCall::Add(const StoreCheck& check, std::int64_t n) {
  lone_ = entries_ == 0 && IsPlain(check, n);
  ++entries_;
  weight_ += WeightOf(check);
  if (check.lease) AddLease(*check.lease);
  check_numbers_.push_back(IndexOfRequest(check));
  check_numbers_.push_back(static_cast<double>(n));
  for (const CounterCheck& counter : check.counters) {
    check_numbers_.push_back(IndexOfKey(counter.key));
  }
  for (const CounterCheck& counter : check.counters) {
    check_numbers_.push_back(static_cast<double>(counter.units));
  }
  if (UsesRecord(check)) {
    for (const CounterCheck& counter : check.counters) {
      check_numbers_.push_back(IndexOfRecord(counter, *check.lease));
    }
  }
  if (check.concerns_grants) {
    for (const CounterCheck& counter : check.counters) AddGrants(counter);
  }
  if (check.demand.mode != Mode::kUndo) return;
  for (const CounterCheck& counter : check.counters) {
    const auto before = FieldsOf(counter.before);
    check_numbers_.insert(check_numbers_.end(), before.begin(), before.end());
  }
}

std::span<const std::string_view> ScriptCall::Arguments(bool declares_keys, Time now) {
  blob_.clear();
  const std::size_t first_limit = kHead + request_numbers_.size() + check_numbers_.size();
  const std::array<double, kHead> head{kVersion,
                                       static_cast<double>(now.time_since_epoch().count()),
                                       is_lone() ? static_cast<double>(limits_.size()) : 0,
                                       static_cast<double>(limits_.size()),
                                       static_cast<double>(requests_.size()),
                                       static_cast<double>(entries_),
                                       static_cast<double>(keys_.size()),
                                       static_cast<double>(first_limit + 1)};
  AppendBytes(blob_, head);
  AppendBytes(blob_, request_numbers_);
  AppendBytes(blob_, check_numbers_);
  AppendBytes(blob_, limit_numbers_);
  blob_.append(kFewestParameters * sizeof(double), '\0');
  const bool declares = declares_keys || !records_.empty();
  declared_ = fmt::format_int(declares ? keys_.size() + records_.size() : 0).str();
  arguments_.assign(1, declared_);
  arguments_.insert(arguments_.end(), keys_.begin(), keys_.end());
  arguments_.insert(arguments_.end(), records_.begin(), records_.end());
  std::size_t begin = 0;
  for (const std::size_t end : lease_ends_) {
    arguments_.push_back(std::string_view(leases_).substr(begin, end - begin));
    begin = end;
  }
  arguments_.push_back(blob_);
  return arguments_;
}

void ScriptCall::AddLease(const Lease& lease) {
  leases_.append(lease.id.begin(), lease.id.end());
  AppendBytes(leases_, std::array{ToNumber(lease.ttl.count())});
  if (lease.report) {
    const Duration said = lease.report->duration.value_or(Duration(-1));
    AppendBytes(leases_, std::array{ToNumber(lease.report->taken), ToNumber(said.count())});
  }
  lease_ends_.push_back(leases_.size());
}

void ScriptCall::AddGrants(const CounterCheck& counter) {
  const auto& [generation, granted, unused] = counter.returned;
  check_numbers_.insert(check_numbers_.end(), {ToNumber(generation), ToNumber(granted),
                                               ToNumber(unused), ToNumber(counter.wanted.units),
                                               static_cast<double>(counter.wanted.life.count())});
}

// The index of the lease's record with the hash tag of `counter`. The latest record is the most
// likely match.
std::uint32_t ScriptCall::IndexOfRecord(const CounterCheck& counter, const Lease& lease) {
  std::string name =
      fmt::format("sluice:{{{}}}:lease:{:02x}", HashedPart(counter.key), fmt::join(lease.id, ""));
  const auto found = std::find(records_.rbegin(), records_.rend(), name);
  if (found != records_.rend()) return static_cast<std::uint32_t>(records_.rend() - found);
  records_.push_back(std::move(name));
  return static_cast<std::uint32_t>(records_.size());
}

// The index starts from 1, as in Lua. Each counter weighs at least 1, so if there are more keys
// than kMaxWeight, all of them are of one check, and distinct.
std::uint32_t ScriptCall::IndexOfKey(const HashedKey& key) {
  const auto next = static_cast<std::uint32_t>(keys_.size() + 1);
  for (std::size_t slot = key.hash(); next <= kMaxWeight; ++slot) {
    std::uint32_t& index = key_table_[slot % key_table_.size()];
    if (index == 0) {
      index = next;
      break;
    }
    if (keys_[index - 1] == key) return index;
  }
  keys_.push_back(key);
  return next;
}

std::uint32_t ScriptCall::IndexOfLimit(const Limit* limit) {
  for (std::size_t i = 0; i < limits_.size(); ++i) {
    if (limits_[i] == limit) return static_cast<std::uint32_t>(i + 1);
  }
  limits_.push_back(limit);
  std::visit([this](const auto& algorithm) { AppendLimit(algorithm, limit_numbers_); }, *limit);
  return static_cast<std::uint32_t>(limits_.size());
}

// The latest request is the most likely match.
std::uint32_t ScriptCall::IndexOfRequest(const StoreCheck& check) {
  for (std::size_t i = requests_.size(); i > 0; --i) {
    if (HaveEqualDemand(*requests_[i - 1], check)) return static_cast<std::uint32_t>(i);
  }
  requests_.push_back(&check);
  request_numbers_.insert(request_numbers_.end(),
                          {static_cast<double>(check.demand.mode), TimeOf(check.demand),
                           LeaseKindOf(check), static_cast<double>(check.counters.size())});
  for (const CounterCheck& counter : check.counters) {
    request_numbers_.push_back(IndexOfLimit(counter.limit));
    request_numbers_.push_back(counter.group);
  }
  return static_cast<std::uint32_t>(requests_.size());
}

Result<ScriptReply> ScriptReply::Open(std::vector<std::string_view> elements) {
  ScriptReply reply;
  if (!elements.empty()) reply.blob_ = elements.front();
  reply.elements_ = std::move(elements);
  std::int64_t version = 0;
  std::int64_t now = 0;
  if (!reply.Take(version) || !reply.Take(now) || version != kVersion) {
    return Error{ErrorCode::kInternal, "the reply of the check script has an unknown format"};
  }
  reply.now_ = Time(Duration(now));
  return reply;
}

bool ScriptReply::Next(const StoreCheck& check, std::int64_t n, EntryReply& reply) {
  reply.error = {};
  reply.now = now_;
  reply.granted = n;
  reply.counters.clear();
  const bool has_lease = ReadsRecord(check);
  if (has_lease && !TakeLease(reply)) return false;
  if (!reply.error.empty()) return true;
  const bool has_results = !check.demand.consumes_or_peeks() && !MayCoalesceCharge(check);
  std::int64_t grants = 0;
  for (std::size_t i = 0; i < check.counters.size(); ++i) {
    const CounterCheck& counter = check.counters[i];
    if (i == 0 || check.counters[i - 1].group != counter.group) {
      if (!Take(grants)) return false;
      if (grants < 0) return TakeError(-grants, reply);
      if (counter.group == 0) reply.granted = grants;
    }
    CounterReply& its = reply.counters.emplace_back();
    its.group_grants = grants;
    std::int64_t admitted = 0;
    if (has_results && !(Take(admitted) && Take(its.report.dropped))) return false;
    if (has_lease && !Take(its.held)) return false;
    std::array<double, 3> fields{};
    for (double& field : fields) {
      if (!Take(field)) return false;
    }
    its.report.snapshot = SnapshotFromFields(*counter.limit, fields);
    its.report.admitted = admitted == 1;
  }
  return !check.concerns_grants || TakeGrants(reply);
}

bool ScriptReply::TakeGrants(EntryReply& reply) {
  for (CounterReply& its : reply.counters) {
    std::array<std::int64_t, 7> numbers{};
    for (std::int64_t& number : numbers) {
      if (!Take(number)) return false;
    }
    const auto& [units, generation, life, older, newer, older_ends, newer_ends] = numbers;
    const auto time = [](std::int64_t number) { return Time(Duration(number)); };
    its.grant = {units, time(generation), Duration(life)};
    its.grants_out = {older, newer, time(older_ends), time(newer_ends)};
  }
  return true;
}

// Reads what became of the lease and when it ends, or an error.
bool ScriptReply::TakeLease(EntryReply& reply) {
  std::int64_t settled = 0;
  std::int64_t ends = 0;
  if (!Take(settled)) return false;
  if (settled < 0) return TakeError(-settled, reply);
  reply.settled = static_cast<Settled>(settled);
  if (!Take(ends)) return false;
  reply.lease_ends = Time(Duration(ends));
  return true;
}

bool ScriptReply::TakeError(std::int64_t message, EntryReply& reply) const {
  if (std::cmp_greater_equal(message, elements_.size())) return false;
  reply.error = elements_[message];
  return true;
}

bool ScriptReply::Take(double& number) {
  if (blob_.size() < sizeof number) return false;
  std::memcpy(&number, blob_.data(), sizeof number);
  blob_.remove_prefix(sizeof number);
  return true;
}

bool ScriptReply::Take(std::int64_t& number) {
  double value = 0;
  // A server that is not Redis may send any number.
  if (!Take(value) || !(std::abs(value) < 0x1p63)) return false;
  number = static_cast<std::int64_t>(value);
  return true;
}

}  // namespace sluice::redis
