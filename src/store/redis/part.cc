#include "store/redis/part.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "store/redis/redis_error.h"
#include "store/redis/slot.h"
#include "store/redis/split_check.h"
#include "store/redis/split_reset.h"

namespace sluice::redis {
namespace {

using Sending = StoreCheck::Sending;

// "MOVED 3999 127.0.0.1:6381", or ASK.
struct RedirectTo {
  std::size_t slot = 0;
  Address address;
};

// A server that does not know its own name leaves it out: it is where `from` is.
std::optional<RedirectTo> ParseRedirect(std::string_view error, const Address& from) {
  const auto slot_at = error.find(' ') + 1;
  const auto place_at = error.find(' ', slot_at) + 1;
  const auto port_at = error.rfind(':') + 1;
  if (slot_at == 0 || place_at == 0 || port_at <= place_at) return std::nullopt;
  RedirectTo to;
  to.address.host = error.substr(place_at, port_at - 1 - place_at);
  if (to.address.host.empty()) to.address.host = from.host;
  const char* const end = error.data() + error.size();
  const auto slot = std::from_chars(error.data() + slot_at, end, to.slot);
  const auto port = std::from_chars(error.data() + port_at, end, to.address.port);
  if (slot.ec != std::errc() || port.ec != std::errc() || to.slot >= kSlots) return std::nullopt;
  return to;
}

}  // namespace

Part::Part(PartContext context)
    : loop_(context.loop),
      servers_(context.servers),
      on_doubt_(std::move(context.on_doubt)),
      node_context_{.loop = loop_,
                    .owner = *this,
                    .metrics = context.metrics,
                    .access = std::move(context.access),
                    .clustered = context.clustered,
                    .options = std::move(context.options)},
      try_again_timer_(loop_.timers(), [this] { TryAgain(); }),
      sweep_timer_(loop_.timers(), [this] { Sweep(); }) {}

Part::~Part() = default;

void Part::Use(const Layout& layout) {
  const auto at_first =
      std::exchange(has_layout_, true) ? Node::AtFirst::kWait : Node::AtFirst::kFail;
  for (auto& [name, entry] : nodes_) entry.owns = false;
  std::vector<Node*> nodes;
  for (const Address& address : layout.servers) {
    nodes.push_back(&NodeAt(address, at_first));
    nodes_.at(address.ToString()).owns = true;
  }
  if (layout.owners.empty()) {
    only_ = nodes.front();
  } else {
    owners_.resize(kSlots);
    std::transform(layout.owners.begin(), layout.owners.end(), owners_.begin(),
                   [&](auto owner) { return owner == Layout::kNobody ? nullptr : nodes[owner]; });
  }
  RetireUnused();
}

// Nodes live until the end of the turn: they may be asked to flush in it.
void Part::Stop() {
  try_again_timer_.Cancel();
  sweep_timer_.Cancel();
  for (auto& [name, entry] : nodes_) entry.node->Stop();
  for (const auto& node : retired_) node->Stop();
  for (StoreCheck* check : std::exchange(try_again_, {})) {
    Fail(*check, StoreFailure::kUnreachable);
  }
}

Node& Part::NodeAt(const Address& address, Node::AtFirst at_first) {
  Entry& entry = nodes_[address.ToString()];
  if (entry.node) return *entry.node;
  for (const auto& node : retired_) {
    if (node->address() == address) node->Stop();  // they would share what is told of the server
  }
  entry.node = std::make_unique<Node>(node_context_, address, servers_.At(address), at_first);
  return *entry.node;
}

// A node that takes over its first slots is named by redirects before it is in a layout.
void Part::RetireUnused() {
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

void Part::Retire(std::unique_ptr<Node> node) {
  retired_.push_back(std::move(node));
  retired_.back()->Retire();
  sweep_timer_.Start(loop_.now() + kSweep);
}

void Part::Sweep() {
  const auto idle = std::stable_partition(retired_.begin(), retired_.end(),
                                          [](const auto& node) { return !node->idle(); });
  for (auto it = idle; it != retired_.end(); ++it) {
    (*it)->Stop();
    loop_.DisposeLater(std::move(*it));
  }
  retired_.erase(idle, retired_.end());
  if (!retired_.empty()) sweep_timer_.Start(loop_.now() + kSweep);
}

void Part::SubmitToMany(StoreCheck& check) {
  check.sending = by_slot_ ? Sending::kBySlot : Sending::kWithOthers;
  check.waits_anew = false;
  check.late = nullptr;
  Route(check);
}

Part::Place Part::PlaceOf(std::string_view key, Sending sending) const {
  if (only_ != nullptr) return {.node = only_, .slot = 0};
  if (owners_.empty()) return {};
  const std::uint16_t slot = SlotOf(key);
  return {.node = owners_[slot], .slot = sending == Sending::kWithOthers ? std::uint16_t{0} : slot};
}

void Part::Route(StoreCheck& check) {
  const Place place = PlaceOf(check.counters.front().key, check.sending);
  const bool one = std::all_of(check.counters.begin() + 1, check.counters.end(),
                               [&](auto& it) { return PlaceOf(it.key, check.sending) == place; });
  one ? SendTo(place.node, check) : SplitCheck::Start(*this, check);
}

void Part::SendTo(Node* node, StoreCheck& check) {
  if (node == nullptr) return Fail(check, StoreFailure::kUnreachable);
  node->SubmitAgain(check);
}

void Part::Reset(StoreReset& reset) {
  if (only_ != nullptr) return only_->Reset(reset);
  SplitReset::Start(*this, reset);
}

void Part::ResetAt(Node* node, StoreReset& reset, bool asking) {
  if (node != nullptr) return node->Reset(reset, asking);
  reset.failure = StoreFailure::kUnreachable;
  reset.OnReset();
}

// An undo for each node. Where nobody owns a key, any node finds out what has become of it.
void Part::Undo(const StoreCheck& check) {
  if (only_ != nullptr) return only_->Undo(check);
  if (nodes_.empty()) return;
  OwnedCheck rest(check);
  for (const CounterCheck& first : rest.counters) {
    if (!first.charged) continue;
    Node* const node = NodeOf(first.key);
    OwnedCheck here(static_cast<const StoreCheck&>(rest));
    for (std::size_t i = 0; i < here.counters.size(); ++i) {
      if (NodeOf(rest.counters[i].key) == node) {
        rest.counters[i].charged = false;
      } else {
        here.counters[i].charged = false;
      }
    }
    AnyNodeFor(first.key).Undo(here);
  }
}

std::optional<Address> Part::AddressOf(std::string_view key) const {
  const Node* const node = NodeOf(key);
  return node == nullptr ? std::nullopt : std::optional(node->address());
}

Node& Part::AnyNodeFor(std::string_view key) const {
  Node* const node = NodeOf(key);
  return node != nullptr ? *node : *nodes_.begin()->second.node;
}

std::string Part::ProbeKey(const Node& node) const {
  constexpr int kTries = 100'000;
  for (int i = 0; i < kTries; ++i) {
    std::string key =
        fmt::format("sluice:{{probe{}}}:fixed_window:1s", i == 0 ? "" : fmt::to_string(i));
    if (NodeOf(key) == &node) return key;
  }
  return "sluice:{probe}:fixed_window:1s";  // it owns no slot
}

Node* Part::FollowRedirect(const Node& from, std::string_view error) {
  const auto to = ParseRedirect(error, from.address());
  if (!to) return nullptr;
  Node& node = NodeAt(to->address, Node::AtFirst::kWait);
  nodes_.at(to->address.ToString()).asked = true;
  if (WordOf(error) == "MOVED") {
    owners_[to->slot] = &node;
    on_doubt_();
  }
  return &node;
}

// Without an error: the node is retired.
void Part::OnRedirect(Node& from, StoreCheck& check, std::string_view error) {
  const std::string_view word = WordOf(error);
  by_slot_ |= RefusesUndeclaredKeys(error);
  if (word == "TRYAGAIN") return TryAgainLater(check);
  if (word == "MOVED" || word == "ASK") {
    Node* const node = FollowRedirect(from, error);
    if (node == nullptr) return Fail(check, StoreFailure::kRejected);
    check.sending = word == "ASK" ? Sending::kAsking : Sending::kBySlot;
    return SendTo(node, check);
  }
  if (!error.empty()) check.sending = Sending::kBySlot;
  Route(check);
}

void Part::OnRedirect(Node& from, StoreReset& reset, std::string_view error) {
  Node* const node = FollowRedirect(from, error);
  if (node != nullptr) return node->Reset(reset, WordOf(error) == "ASK");
  reset.failure = StoreFailure::kRejected;
  reset.OnReset();
}

void Part::OnTakenBack(std::unique_ptr<TakeBack> take_back) {
  Node& node = AnyNodeFor(take_back->counters.front().key);
  node.OnTakenBack(std::move(take_back));
}

// Some of its keys have moved and some have not: soon all will have.
void Part::TryAgainLater(StoreCheck& check) {
  check.sending = Sending::kBySlot;
  try_again_.push_back(&check);
  if (!try_again_timer_.active()) try_again_timer_.Start(loop_.now() + kTryAgain);
}

void Part::TryAgain() {
  for (StoreCheck* check : std::exchange(try_again_, {})) Route(*check);
}

void Part::Fail(StoreCheck& check, StoreFailure failure) {
  check.Fail(check.last_deadline <= loop_.now() ? StoreFailure::kCallerTimeout : failure);
  check.OnDecided();
}

}  // namespace sluice::redis
