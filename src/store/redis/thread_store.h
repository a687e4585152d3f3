// One io thread's part of the Redis store: a Node for each Redis node, and the routing of
// checks.
//
// A check whose counters all have the same route (see Route) is sent whole and decided atomically;
// any other check is split. If a key has moved, the check is sent again, to the key's new node,
// until the check's deadline.
//
// Loop thread only. Dispose of it after Stop.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/timer_queue.h"
#include "net/transport.h"
#include "store/redis/node.h"
#include "store/redis/pending_check.h"
#include "store/redis/server_state.h"
#include "store/redis/settler.h"
#include "store/redis/topology.h"

namespace sluice::redis {

struct ThreadStoreContext {
  net::Loop& loop;
  Servers& servers;
  MetricsRegistry& metrics;
  ServerAccess access;
  bool clustered = false;
  NodeOptions options;
  std::function<void()> on_layout_suspect;  // requests a new layout
  ServerStatus& layout_status;              // of the sentinels or nodes that name the layout
};

// Delayed in-order checks, in a Cluster. Later in-order checks that share a counter with one of the
// delayed checks must wait, too.
class DelayedChecks {
 public:
  // The check must outlive this object.
  void Add(const PendingCheck& check) {
    for (const CounterCheck& counter : CountersOf(check)) {
      std::uint64_t& first = first_.try_emplace(counter.key, check.number).first->second;
      first = std::min(first, check.number);
    }
  }

  // Whether one of the delayed checks arrived before `check` and shares a counter with it.
  bool MustPrecede(const PendingCheck& check) const {
    return std::ranges::any_of(CountersOf(check), [&](const CounterCheck& counter) {
      const auto first = first_.find(counter.key);
      return first != first_.end() && first->second < check.number;
    });
  }

 private:
  static std::span<const CounterCheck> CountersOf(const PendingCheck& check) {
    if (!check.check->in_order) return {};
    return check.check->counters;
  }

  std::unordered_map<std::string_view, std::uint64_t> first_;  // by key: the first check's number
};

class ThreadStore final : public net::Disposable, private NodeOwner {
 public:
  // The objects that `context` refers to must outlive this.
  explicit ThreadStore(ThreadStoreContext context);
  ~ThreadStore() override;

  void Use(const Layout& layout);
  void Stop();

  void Submit(StoreCheck& check);
  void Reset(StoreReset& reset);
  void Undo(const StoreCheck& check);
  bool Settle(const StoreCheck& settle) { return settler_.Settle(settle); }
  std::size_t queued_settles() const { return settler_.queued_settles(); }

  std::size_t PartOf(std::string_view key) const;

  // The address of the node that owns `key`; empty if none is known.
  std::optional<Address> AddressOf(std::string_view key) const;

 private:
  static constexpr std::chrono::milliseconds kTryAgain{1};
  static constexpr std::uint8_t kMostRedirects = 5;
  static constexpr std::chrono::milliseconds kSweep{100};

  struct Entry {
    std::unique_ptr<Node> node;
    bool owns = false;   // in the latest layout
    bool asked = false;  // named by a redirect since then
  };

  // Counters with equal routes can be sent in one call.
  struct Route {
    Node* node = nullptr;    // null: the key has no owner
    std::uint16_t slot = 0;  // the counters' slot, if they are sent by slot; else 0

    bool operator==(const Route&) const = default;
  };
  class SplitCheck;
  class SplitReset;

  void Submit(PendingPtr pending);
  void SendByRoute(PendingPtr pending);
  Route RouteOf(std::string_view key, Routing routing) const;
  void SendTo(Node* node, PendingPtr pending);
  void ResetAt(Node* node, StoreReset& reset);
  // For counters with several routes: see split.cc.
  void SubmitSplit(PendingPtr whole);
  void ResetSplit(StoreReset& whole);
  Node& NodeAt(const Address& address, Node::WhenUnconnected when_unconnected);
  void RetireUnused();
  void Retire(std::unique_ptr<Node> node);
  void Sweep();
  Node* NodeOf(std::string_view key) const { return RouteOf(key, Routing::kWithOthers).node; }
  std::optional<std::size_t> PartOf(const Node& node) const;
  Node* FollowRedirect(const Node& from, std::string_view error);
  void FollowAsked(Node& node);
  void ResendQueued(Node& node);
  void Pause(PendingPtr pending);
  void TryAgainLater(PendingPtr pending);
  void TryAgain();
  void Fail(StoreCheck& check, StoreFailure failure) const;

  void OnRedirect(Node& node, PendingPtr pending, std::string_view error) override;
  void OnRedirect(Node& node, StoreReset& reset, std::string_view error) override;
  void OnRedirected(Node& node) override;
  void OnLayoutSuspect() override { on_layout_suspect_(); }
  void OnUnreachable(const Node& node, bool lost) override;
  void OnReachable(const Node& node) override;
  std::string ProbeKey(const Node& node) override;

  net::Loop& loop_;
  Servers& servers_;
  const std::function<void()> on_layout_suspect_;
  ServerStatus& layout_status_;
  Counter& unowned_;  // checks of slots without a master
  Settler settler_;
  const NodeContext node_context_;
  std::map<std::string, Entry> nodes_;  // by address
  Node* only_ = nullptr;                // the node that owns every key; null in a Cluster
  bool by_slot_ = false;                // a node rejects undeclared keys
  std::vector<Node*> owners_;           // by slot; null: no owner. Empty unless clustered
  std::vector<std::uint16_t> parts_;    // by slot: the owner's position in the layout
  std::vector<std::unique_ptr<Node>> retired_;
  std::uint32_t next_probe_ = 0;
  std::uint64_t next_number_ = 0;
  PendingChecks try_again_;  // in order of arrival
  DelayedChecks waiting_;    // the checks of try_again_
  // By key: the node that imports the key, to which OnRedirect has sent an in-order check.
  std::map<std::string, Node*, std::less<>> asked_;
  net::Timer try_again_timer_;
  net::Timer sweep_timer_;
};

}  // namespace sluice::redis
