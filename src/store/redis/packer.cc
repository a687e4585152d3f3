#include "store/redis/packer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "store/redis/connection.h"
#include "store/redis/script.h"
#include "store/redis/slot.h"

namespace sluice::redis {
namespace {

bool UsesSlot(const CheckQueue::Entry& entry, std::uint16_t slot) {
  return std::ranges::any_of(entry.front().check->counters,
                             [&](const CounterCheck& it) { return SlotOf(it.key) == slot; });
}

// The entries of a pack are sorted by their numbers.
bool Has(const Pack& pack, std::uint64_t number) {
  return std::ranges::binary_search(pack.entries, number, {}, &CheckQueue::Entry::number);
}

bool IsOfSlot(const CheckQueue::Entry& entry, std::uint16_t slot) {
  return std::ranges::all_of(entry.front().check->counters,
                             [&](const CounterCheck& it) { return SlotOf(it.key) == slot; });
}

}  // namespace

// In-order checks of one counter are never in flight in two packs. If the script were missing for
// the first pack, and another client loaded it before the second, the second pack would be decided
// before the first.
bool Packer::MaySendFront() const {
  if (queue_.empty()) return false;
  if (in_flight_.MayHave(queue_.front().after)) return false;
  if (apart_ > 0) return true;
  if (queue_.front().front().routing != Routing::kWithOthers) {
    return in_flight_.slot_packs() < kMaxSlotPacksInFlight;
  }
  const std::size_t packs = in_flight_.shared_packs();
  return packs == 0 || (packs < kMaxPacksInFlight && queue_.entries() >= ScriptCall::kMaxEntries);
}

// In-order checks of one counter stay in one pack; otherwise, the second check would wait for the
// reply to the first.
bool Packer::MaySendApart() const {
  if (in_flight_.shared_packs() > 0 || queue_.empty() || queue_.entries() > kMaxApart) return false;
  const std::uint64_t first = queue_.front().number;
  return std::ranges::all_of(queue_.all(), [&](const CheckQueue::Entry& entry) {
    if (entry.checks.empty()) return true;
    return entry.after < first && entry.front().routing == Routing::kWithOthers &&
           IsPlain(*entry.front().check, static_cast<std::int64_t>(entry.checks.size()));
  });
}

// A pack with kBySlot or kAsking has only one entry. A pack with kWithItsSlot declares its keys, so
// all its checks are of one slot. Checks of this slot with kWithOthers may join the pack.
// Otherwise, if in-order checks with and without leases of units alternated, each check would wait
// for the reply to the previous check.
bool Packer::MayJoin(const CheckQueue::Entry& entry, const Pack& pack) const {
  if (pack.entries.empty()) return true;
  if (apart_ > 0) return false;
  if (std::max(entry.front().routing, pack.routing) > Routing::kWithItsSlot) return false;
  if (entry.front().routing > pack.routing) return false;
  if (pack.is_of_one_slot() && !IsOfSlot(entry, pack.slot)) return false;
  return call_.HasRoomFor(*entry.front().check) &&
         (!in_flight_.MayHave(entry.after) || Has(pack, entry.after));
}

// The pack may overtake queued checks of other slots, because they share no counter with it. It
// may not overtake checks of its own slot.
void Packer::AppendFollowers(Pack& pack) {
  const auto& entries = queue_.all();
  const std::size_t most = std::min(entries.size(), ScriptCall::kMaxEntries);
  const std::uint64_t first = pack.entries.front().number;
  const bool any = std::any_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(most),
                               [first](const CheckQueue::Entry& it) { return it.after >= first; });
  for (std::size_t i = 0; any && i < most; ++i) {
    if (entries[i].checks.empty() || !UsesSlot(entries[i], pack.slot)) continue;
    if (!MayJoin(entries[i], pack)) return;
    Append(queue_.Take(i), pack);
  }
}

std::unique_ptr<Pack> Packer::TakeNext() {
  if (MaySendApart()) apart_ = queue_.entries();
  if (!MaySendFront()) {
    apart_ = 0;
    return nullptr;
  }
  auto pack = EmptyPack();
  const PendingCheck& first = queue_.front().front();
  pack->routing = first.routing;
  if (pack->is_of_one_slot()) pack->slot = SlotOf(first.check->counters.front().key);
  call_.Clear();
  while (!queue_.empty() && MayJoin(queue_.front(), *pack)) Append(queue_.TakeFront(), *pack);
  if (pack->routing == Routing::kWithItsSlot) AppendFollowers(*pack);
  if (apart_ > 0) --apart_;
  Encode(*pack);
  return pack;
}

std::unique_ptr<Pack> Packer::EmptyPack() {
  if (!spare_) return std::make_unique<Pack>();
  spare_->command.clear();
  spare_->entries.clear();
  spare_->routing = Routing::kWithOthers;
  return std::move(spare_);
}

std::unique_ptr<Pack> Packer::PackAlone(PendingPtr check) {
  auto pack = EmptyPack();
  CheckQueue::Entry entry{.checks = {}, .number = std::numeric_limits<std::uint64_t>::max()};
  entry.checks.push_back(std::move(check));
  call_.Clear();
  Append(std::move(entry), *pack);
  Encode(*pack);
  return pack;
}

void Packer::Append(CheckQueue::Entry entry, Pack& pack) {
  call_.Add(*entry.front().check, static_cast<std::int64_t>(entry.checks.size()));
  pack.entries.push_back(std::move(entry));
}

void Packer::Encode(Pack& pack) {
  const auto arguments = call_.Arguments(declares_keys_ || pack.routing == Routing::kBySlot,
                                         clock_ != nullptr ? clock_->Now() : Time());
  arguments_.assign({"EVALSHA", kCheckScript.sha1});
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  AppendCommand(arguments_, pack.command);
}

}  // namespace sluice::redis
