#include "core/algorithm/holders.h"

#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace sluice {
namespace {

using Key = std::pair<Time, LeaseId>;  // identifies a holder; sorted by expiry

// For a tree that maps each Key to its slots. Each node keeps the sum of the slots of that node and
// of all nodes below it.
template <typename ConstNode, typename Node, typename Less, typename Allocator>
class SumOfSlots {
 public:
  using metadata_type = std::int64_t;

  // The slots of all holders up to and including `key`.
  std::int64_t Until(const Key& key) const {
    std::int64_t sum = 0;
    ConstNode node = node_begin();
    while (node != node_end()) {
      if (key < (**node).first) {
        node = node.get_l_child();
      } else {
        sum += (**node).second + SumOf(node.get_l_child());
        node = node.get_r_child();
      }
    }
    return sum;
  }

  // The holder of the `nth` slot, from 1. REQUIRES: there are at least `nth` slots.
  Key At(std::int64_t nth) const {
    ConstNode node = node_begin();
    for (;;) {
      const std::int64_t before = SumOf(node.get_l_child());
      const std::int64_t until = before + (**node).second;
      if (nth > before && nth <= until) return (**node).first;
      node = nth <= before ? node.get_l_child() : node.get_r_child();
      if (nth > until) nth -= until;
    }
  }

  virtual ConstNode node_begin() const = 0;
  virtual ConstNode node_end() const = 0;
  virtual ~SumOfSlots() = default;

 protected:
  // The tree calls this when the nodes below `node` have changed.
  void operator()(Node node, ConstNode) const {
    const_cast<std::int64_t&>(node.get_metadata()) =
        (**node).second + SumOf(node.get_l_child()) + SumOf(node.get_r_child());
  }

 private:
  std::int64_t SumOf(ConstNode node) const { return node == node_end() ? 0 : node.get_metadata(); }
};

using SlotsByExpiry =
    __gnu_pbds::tree<Key, std::int64_t, std::less<>, __gnu_pbds::rb_tree_tag, SumOfSlots>;

LeaseId LastId() {
  LeaseId id;
  id.fill(0xFF);
  return id;
}

}  // namespace

struct Holders::Index {
  std::map<LeaseId, Holder> by_id;
  SlotsByExpiry by_expiry;
};

Holders::Holders() : index_(std::make_unique<Index>()) {}
Holders::~Holders() = default;

const Holder* Holders::Find(const LeaseId& id) const {
  const auto found = index_->by_id.find(id);
  return found == index_->by_id.end() ? nullptr : &found->second;
}

void Holders::Set(const LeaseId& id, const Holder& holder) {
  Remove(id);
  index_->by_id.emplace(id, holder);
  index_->by_expiry.insert({{holder.expires, id}, holder.slots});
}

void Holders::Remove(const LeaseId& id) {
  const auto found = index_->by_id.find(id);
  if (found == index_->by_id.end()) return;
  index_->by_expiry.erase({found->second.expires, id});
  index_->by_id.erase(found);
}

std::int64_t Holders::RemoveExpired(Time now, std::int64_t most) {
  auto& by_expiry = index_->by_expiry;
  std::int64_t removed = 0;
  while (removed < most && !by_expiry.empty() && by_expiry.begin()->first.first <= now) {
    const auto [key, slots] = *by_expiry.begin();
    Remove(key.second);
    if (slots > most - removed) Set(key.second, {key.first, slots - (most - removed)});
    removed += std::min(slots, most - removed);
  }
  return removed;
}

void Holders::Clear() { index_ = std::make_unique<Index>(); }

std::size_t Holders::size() const { return index_->by_id.size(); }

std::int64_t Holders::HeldAfter(Time now) const {
  if (index_->by_expiry.empty()) return 0;
  return index_->by_expiry.node_begin().get_metadata() - index_->by_expiry.Until({now, LastId()});
}

Time Holders::ExpiryAfter(Time now, std::int64_t nth) const {
  return index_->by_expiry.At(index_->by_expiry.Until({now, LastId()}) + nth).first;
}

Time Holders::LatestExpiry() const { return (--index_->by_expiry.end())->first.first; }

}  // namespace sluice
