#include "store/memory/lease_records.h"

#include <cstring>
#include <utility>

namespace sluice {
namespace {

// More than one, so that records are dropped faster than they are entered.
constexpr int kDroppedAtOnce = 64;

}  // namespace

// The id of a lease is random or is itself a hash, so its first bytes are a good hash.
std::size_t LeaseRecords::Bytes::operator()(const LeaseId& id) const {
  std::size_t hash = 0;
  std::memcpy(&hash, id.data(), sizeof hash);
  return hash;
}

std::size_t LeaseRecords::size() const {
  const MutexLock lock(mutex_);
  return records_.size();
}

std::vector<Held> LeaseRecords::Read(StoreCheck& check) {
  const std::vector<Held> nothing(check.counters.size());
  check.settled = Settled::kNotFound;
  check.lease_ends = {};
  const MutexLock lock(mutex_);
  const auto found = records_.find(check.lease->id);
  if (found == records_.end() || found->second.end->first <= check.decided_at) return nothing;
  const Record& record = found->second;
  if (record.held.size() != nothing.size()) {
    if (record.held.empty()) check.settled = Settled::kAlreadySettled;
    return nothing;
  }
  check.settled = Settled::kSettled;
  check.lease_ends = record.lease_ends;
  return record.held;
}

void LeaseRecords::Enter(const StoreCheck& check, std::vector<Held> held) {
  const Time lease_ends = check.decided_at + check.lease->ttl;
  const MutexLock lock(mutex_);
  Put(check.lease->id, lease_ends + kSettlesFor,
      {.lease_ends = lease_ends, .held = std::move(held), .end = {}});
}

// If too many settled leases are remembered, the record of this lease is dropped. A second
// settlement then finds no record and changes nothing.
void LeaseRecords::MarkSettled(const StoreCheck& check) {
  const MutexLock lock(mutex_);
  if (records_.size() - open_ < kMaxOpen) {
    Put(check.lease->id, check.decided_at + kKnowsSettledFor, {});
  } else if (const auto found = records_.find(check.lease->id); found != records_.end()) {
    Drop(found);
  }
}

void LeaseRecords::DropEnded(Time now) {
  if (now < first_end_.load()) return;
  const MutexLock lock(mutex_);
  for (int i = 0; i < kDroppedAtOnce && !ends_.empty() && ends_.begin()->first <= now; ++i) {
    Drop(records_.find(ends_.begin()->second));
  }
  NoteFirstEnd();
}

void LeaseRecords::Put(const LeaseId& id, Time end, Record record) {
  if (const auto found = records_.find(id); found != records_.end()) Drop(found);
  record.end = ends_.emplace(end, id);
  if (!record.held.empty()) ++open_;
  records_.emplace(id, std::move(record));
  NoteFirstEnd();
}

void LeaseRecords::Drop(Records::iterator record) {
  if (!record->second.held.empty()) --open_;
  ends_.erase(record->second.end);
  records_.erase(record);
}

void LeaseRecords::NoteFirstEnd() {
  first_end_ = ends_.empty() ? Time::max() : ends_.begin()->first;
}

}  // namespace sluice
