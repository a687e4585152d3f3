#include "store/redis/thread_store.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "store/redis/redis_error.h"
#include "store/redis/script_call.h"
#include "store/redis/slot.h"

namespace sluice::redis {
namespace {

// Records of leases cannot be read with undeclared keys: while a slot moves, a record that has
// already moved would look absent. There may be many checks that use records, so they share calls.
Routing WithRedirects(const StoreCheck& check) {
  return UsesRecord(check) ? Routing::kWithItsSlot : Routing::kBySlot;
}

}  // namespace

ThreadStore::ThreadStore(ThreadStoreContext context)
    : loop_(context.loop),
      servers_(context.servers),
      on_layout_suspect_(std::move(context.on_layout_suspect)),
      layout_status_(context.layout_status),
      unowned_(ErrorsOfKind(context.metrics, "CLUSTERDOWN")),
      settler_(loop_, context.metrics, context.options.listener,
               [this](PendingPtr pending) { Submit(std::move(pending)); }),
      node_context_{.loop = loop_,
                    .owner = *this,
                    .settler = settler_,
                    .metrics = context.metrics,
                    .access = std::move(context.access),
                    .clustered = context.clustered,
                    .inspects = loop_.index() == 0,
                    .options = std::move(context.options)},
      try_again_timer_(loop_.timers(), [this] { TryAgain(); }),
      sweep_timer_(loop_.timers(), [this] { Sweep(); }) {}

ThreadStore::~ThreadStore() = default;

void ThreadStore::Use(const Layout& layout) {
  const auto when_unconnected =
      nodes_.empty() ? Node::WhenUnconnected::kFail : Node::WhenUnconnected::kWait;
  for (auto& [name, entry] : nodes_) entry.owns = false;
  std::vector<Node*> nodes;
  for (const Address& address : layout.servers) {
    nodes.push_back(&NodeAt(address, when_unconnected));
    nodes_.at(address.ToString()).owns = true;
  }
  if (layout.owners.empty()) {
    only_ = nodes.front();
  } else {
    parts_ = layout.owners;
    owners_.resize(kSlots);
    std::transform(layout.owners.begin(), layout.owners.end(), owners_.begin(),
                   [&](auto owner) { return owner == Layout::kNobody ? nullptr : nodes[owner]; });
  }
  RetireUnused();
  // A part that was lost may now belong to another node, which was already connected.
  for (const Node* node : nodes) {
    if (node->reachable()) OnReachable(*node);
  }
}

// Nodes live until the end of the loop iteration, in which they may still be flushed.
void ThreadStore::Stop() {
  try_again_timer_.Cancel();
  sweep_timer_.Cancel();
  settler_.Stop();
  for (const auto& node : retired_) node->Stop();
  for (auto& [name, entry] : nodes_) entry.node->Stop();
  for (const PendingPtr& pending : std::exchange(try_again_, {})) {
    Fail(*pending->check, StoreFailure::kUnreachable);
  }
}

Node& ThreadStore::NodeAt(const Address& address, Node::WhenUnconnected when_unconnected) {
  const std::string name = address.ToString();
  const auto known = nodes_.find(name);
  if (known != nodes_.end()) return *known->second.node;
  for (const auto& node : retired_) {
    if (node->address() == address) node->Stop();  // else two nodes would share one ServerStatus
  }
  return *(nodes_[name].node = std::make_unique<Node>(node_context_, address, servers_.At(address),
                                                      when_unconnected));
}

// A node that takes over its first slots appears in redirects before it is in a layout.
void ThreadStore::RetireUnused() {
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const bool used = it->second.owns || std::exchange(it->second.asked, false);
    if (used) {
      ++it;
    } else {
      std::unique_ptr<Node> node = std::move(it->second.node);
      it = nodes_.erase(it);
      std::replace(owners_.begin(), owners_.end(), node.get(), static_cast<Node*>(nullptr));
      Retire(std::move(node));
    }
  }
}

void ThreadStore::Retire(std::unique_ptr<Node> node) {
  retired_.push_back(std::move(node));
  retired_.back()->Retire();
  sweep_timer_.Start(loop_.now() + kSweep);
}

void ThreadStore::Sweep() {
  const auto idle = std::stable_partition(retired_.begin(), retired_.end(),
                                          [](const auto& node) { return !node->idle(); });
  for (auto it = idle; it != retired_.end(); ++it) {
    (*it)->Stop();
    loop_.DisposeLater(std::move(*it));
  }
  retired_.erase(idle, retired_.end());
  if (!retired_.empty()) sweep_timer_.Start(loop_.now() + kSweep);
}

void ThreadStore::Submit(StoreCheck& check) {
  check.undo_late = nullptr;
  Submit(std::make_unique<PendingCheck>(check));
}

void ThreadStore::Submit(PendingPtr pending) {
  if (only_ != nullptr) return only_->Submit(std::move(pending));
  pending->number = next_number_++;
  if (by_slot_ || UsesRecord(*pending->check)) pending->routing = WithRedirects(*pending->check);
  SendByRoute(std::move(pending));
}

void ThreadStore::SendByRoute(PendingPtr pending) {
  const auto& counters = pending->check->counters;
  const Routing routing = pending->routing;
  const Route route = RouteOf(counters.front().key, routing);
  const bool is_one = std::all_of(counters.begin() + 1, counters.end(), [&](const auto& counter) {
    return RouteOf(counter.key, routing) == route;
  });
  is_one ? SendTo(route.node, std::move(pending)) : SubmitSplit(std::move(pending));
}

ThreadStore::Route ThreadStore::RouteOf(std::string_view key, Routing routing) const {
  if (only_ != nullptr) return {.node = only_, .slot = 0};
  if (owners_.empty()) return {};
  const std::uint16_t slot = SlotOf(key);
  return {.node = owners_[slot], .slot = routing == Routing::kWithOthers ? std::uint16_t{0} : slot};
}

void ThreadStore::SendTo(Node* node, PendingPtr pending) {
  if (node == nullptr) {
    // Counted and logged as if a node had answered CLUSTERDOWN.
    if (!owners_.empty()) {
      unowned_.Increment();
      layout_status_.OnError("CLUSTERDOWN a slot has no owner in the slot map", loop_.now(), {});
    }
    return Fail(*pending->check, StoreFailure::kUnreachable);
  }
  if (waiting_.MustPrecede(*pending)) return TryAgainLater(std::move(pending));
  node->Submit(std::move(pending));
}

void ThreadStore::Reset(StoreReset& reset) {
  if (only_ != nullptr) return only_->Reset(reset);
  ResetSplit(reset);
}

void ThreadStore::ResetAt(Node* node, StoreReset& reset) {
  if (node != nullptr) return node->Reset(reset);
  reset.Finish(StoreFailure::kUnreachable);
}

void ThreadStore::Undo(const StoreCheck& check) {
  settler_.Undo(check);
  if (check.undo_late) check.undo_late();
}

std::optional<Address> ThreadStore::AddressOf(std::string_view key) const {
  const Node* const node = NodeOf(key);
  return node == nullptr ? std::nullopt : std::optional(node->address());
}

std::size_t ThreadStore::PartOf(std::string_view key) const {
  return parts_.empty() ? 0 : parts_[SlotOf(key)] % Store::kParts;
}

// Empty if `node` owns no slots.
std::optional<std::size_t> ThreadStore::PartOf(const Node& node) const {
  if (only_ == &node) return 0;
  const auto slot = std::find(owners_.begin(), owners_.end(), &node);
  if (slot == owners_.end()) return std::nullopt;
  return parts_[static_cast<std::size_t>(slot - owners_.begin())] % Store::kParts;
}

void ThreadStore::OnUnreachable(const Node& node, bool lost) {
  on_layout_suspect_();
  if (!lost) return;
  StoreListener* const listener = node_context_.options.listener;
  const auto part = PartOf(node);
  if (listener != nullptr && part) listener->OnPartLost(*part);
}

void ThreadStore::OnReachable(const Node& node) {
  settler_.SendDeferred();
  StoreListener* const listener = node_context_.options.listener;
  const auto part = PartOf(node);
  if (listener != nullptr && part) listener->OnPartFound(*part);
}

// Each call uses another slot, because a node refuses new counters of a slot that is migrating
// away.
std::string ThreadStore::ProbeKey(const Node& node) {
  constexpr int kTries = 100'000;
  for (int i = 0; only_ == nullptr && i < kTries; ++i) {
    std::string key = fmt::format("sluice:{{probe{}}}:fixed_window:1s", next_probe_++ % kTries);
    if (NodeOf(key) == &node) return key;
  }
  return "sluice:{probe}:fixed_window:1s";  // `node` owns all slots, or none
}

Node* ThreadStore::FollowRedirect(const Node& from, std::string_view error) {
  const auto to = ParseRedirect(error, from.address());
  if (!to) {
    on_layout_suspect_();
    return nullptr;
  }
  Node& node = NodeAt(to->address, Node::WhenUnconnected::kWait);
  nodes_.at(to->address.ToString()).asked = true;
  if (WordOf(error) == "MOVED") {
    owners_[to->slot] = &node;
    on_layout_suspect_();
  }
  return &node;
}

void ThreadStore::OnRedirect(Node& from, PendingPtr pending, std::string_view error) {
  const std::string_view word = WordOf(error);
  by_slot_ |= RefusesUndeclaredKeys(error);
  if (word == "TRYAGAIN") return TryAgainLater(std::move(pending));
  if (word == "MOVED" || word == "ASK") {
    if (++pending->redirects > kMostRedirects) return Pause(std::move(pending));
    Node* const node = FollowRedirect(from, error);
    // The redirect names no address. The slot map may name the new owner.
    if (node == nullptr) return TryAgainLater(std::move(pending));
    pending->routing = word == "ASK" ? Routing::kAsking : WithRedirects(*pending->check);
    for (const CounterCheck& counter : pending->check->counters) {
      if (word == "ASK" && pending->check->in_order) asked_[std::string(counter.key)] = node;
    }
    return SendTo(node, std::move(pending));
  }
  // The checks queued behind an in-order check must not overtake it.
  if (!error.empty() && pending->check->in_order) return TryAgainLater(std::move(pending));
  if (!error.empty()) pending->routing = WithRedirects(*pending->check);
  SendByRoute(std::move(pending));
}

// While nodes disagree about a failover, they may redirect to each other. The store's own
// operations have no deadline: they fail here, and Settler sends them again later.
void ThreadStore::Pause(PendingPtr pending) {
  on_layout_suspect_();
  pending->redirects = 0;
  if (pending->own) return Fail(*pending->check, StoreFailure::kUnreachable);
  TryAgainLater(std::move(pending));
}

void ThreadStore::OnRedirect(Node& from, StoreReset& reset, std::string_view error) {
  Node* const node = FollowRedirect(from, error);
  if (node != nullptr) return node->Reset(reset, WordOf(error) == "ASK");
  reset.Finish(StoreFailure::kRejected);
}

void ThreadStore::OnRedirected(Node& node) {
  FollowAsked(node);
  ResendQueued(node);
  for (PendingPtr& next : node.RemoveQueuedIf([this](const PendingCheck& it) {
         const bool waits = waiting_.MustPrecede(it);
         if (waits) waiting_.Add(it);
         return waits;
       })) {
    TryAgainLater(std::move(next));
  }
}

// In-order checks have been sent to a node that imports their counters. Queued in-order checks that
// use only these counters follow at once, unless an earlier check of such a counter stays queued.
// If they did not follow, they would be sent to `node`. If the importing node refused an earlier
// check meanwhile, a queued check might be decided before the earlier one.
void ThreadStore::FollowAsked(Node& node) {
  if (asked_.empty()) return;
  const auto asked = std::exchange(asked_, {});
  DelayedChecks staying;
  const auto follows = [&](const PendingCheck& it) {
    const auto& counters = it.check->counters;
    const bool goes = it.check->in_order && it.routing != Routing::kAsking &&
                      !staying.MustPrecede(it) &&
                      std::ranges::all_of(counters, [&](const CounterCheck& counter) {
                        return asked.contains(std::string_view(counter.key)) &&
                               SlotOf(counter.key) == SlotOf(counters.front().key);
                      });
    if (!goes) staying.Add(it);
    return goes;
  };
  for (PendingPtr& next : node.RemoveQueuedIf(follows)) {
    next->routing = Routing::kAsking;
    Node* const importing = asked.find(std::string_view(next->check->counters.front().key))->second;
    SendTo(importing, std::move(next));
  }
}

// A slot has moved, and new checks are sent to its new owner. The new checks must not overtake the
// checks queued at `node`, so the queued checks are sent to the new owner, too. But queued in-order
// checks stay while an in-order check is in flight, because Redis may still redirect the check in
// flight. If a piece of a resent check stays at `node`, the piece is queued again, and so are the
// checks that follow it.
void ThreadStore::ResendQueued(Node& node) {
  const bool keeps_order = node.has_in_order_in_flight();
  const auto is_elsewhere = [&](const PendingCheck& it) {
    return std::any_of(it.check->counters.begin(), it.check->counters.end(),
                       [&](const auto& counter) {
                         const Node* const owner = NodeOf(counter.key);
                         return owner != nullptr && owner != &node;
                       });
  };
  DelayedChecks resent;
  for (PendingPtr& next : node.RemoveQueuedIf([&](const PendingCheck& it) {
         const bool stays = (keeps_order && it.check->in_order) || it.routing == Routing::kAsking;
         const bool resends = !stays && (is_elsewhere(it) || resent.MustPrecede(it));
         if (resends) resent.Add(it);
         return resends;
       })) {
    SendByRoute(std::move(next));
  }
}

// Usually, some keys of the check have moved and the others will move soon. The check is sent later
// and alone, so that other checks do not have to wait with it. A check that was in flight precedes
// the checks that were queued behind it.
void ThreadStore::TryAgainLater(PendingPtr pending) {
  pending->routing = Routing::kBySlot;
  waiting_.Add(*pending);
  const auto next = std::ranges::upper_bound(try_again_, pending->number, {},
                                             [](const PendingPtr& it) { return it->number; });
  try_again_.insert(next, std::move(pending));
  if (!try_again_timer_.active()) try_again_timer_.Start(loop_.now() + kTryAgain);
}

void ThreadStore::TryAgain() {
  waiting_ = {};
  for (PendingPtr& pending : std::exchange(try_again_, {})) SendByRoute(std::move(pending));
}

void ThreadStore::Fail(StoreCheck& check, StoreFailure failure) const {
  check.Fail(check.last_deadline <= loop_.now() ? StoreFailure::kCallerTimeout : failure);
  check.OnDecided();
}

}  // namespace sluice::redis
