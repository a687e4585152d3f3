// What one io thread has of the Redis store: a node for each server, and which of them gets what.
//
// A check whose counters one node owns goes there whole and is decided atomically; any other is
// split. What a node has not run, as a key has moved, is sent to where it is now, until its
// deadline.
//
// Loop thread only. To be disposed of after Stop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "net/transport.h"
#include "store/redis/node.h"
#include "store/redis/node_owner.h"
#include "store/redis/server.h"
#include "store/redis/topology.h"

namespace sluice::redis {

struct PartContext {
  net::Loop& loop;
  Servers& servers;
  MetricsRegistry& metrics;
  Access access;
  bool clustered = false;
  NodeOptions options;
  std::function<void()> on_doubt;  // asks for the layout
};

class Part final : public net::Disposable, private NodeOwner {
 public:
  // What `context` refers to must outlive the part.
  explicit Part(PartContext context);
  ~Part() override;

  void Use(const Layout& layout);
  void Stop();

  void Submit(StoreCheck& check) {
    if (only_ != nullptr) return only_->Submit(check);
    SubmitToMany(check);
  }
  void Reset(StoreReset& reset);
  void Undo(const StoreCheck& check);

  // Of the server that owns `key`; nothing if none is known.
  std::optional<Address> AddressOf(std::string_view key) const;

  // For SplitCheck and SplitReset: counters of one place can be sent in one call.
  struct Place {
    Node* node = nullptr;    // null: nobody owns the key
    std::uint16_t slot = 0;  // if they go by slot

    bool operator==(const Place&) const = default;
  };
  Place PlaceOf(std::string_view key, StoreCheck::Sending sending) const;
  void SendTo(Node* node, StoreCheck& check);
  void ResetAt(Node* node, StoreReset& reset, bool asking = false);

 private:
  static constexpr std::chrono::milliseconds kTryAgain{1};
  static constexpr std::chrono::milliseconds kSweep{100};

  struct Entry {
    std::unique_ptr<Node> node;
    bool owns = false;   // in the latest layout
    bool asked = false;  // named by a redirect since
  };

  void SubmitToMany(StoreCheck& check);
  void Route(StoreCheck& check);
  Node& NodeAt(const Address& address, Node::AtFirst at_first);
  void RetireUnused();
  void Retire(std::unique_ptr<Node> node);
  void Sweep();
  Node* NodeOf(std::string_view key) const {
    return PlaceOf(key, StoreCheck::Sending::kWithOthers).node;
  }
  Node& AnyNodeFor(std::string_view key) const;
  Node* FollowRedirect(const Node& from, std::string_view error);
  void TryAgainLater(StoreCheck& check);
  void TryAgain();
  void Fail(StoreCheck& check, StoreFailure failure);

  void OnRedirect(Node& node, StoreCheck& check, std::string_view error) override;
  void OnRedirect(Node& node, StoreReset& reset, std::string_view error) override;
  void OnTakenBack(std::unique_ptr<TakeBack> take_back) override;
  void OnDoubt() override { on_doubt_(); }
  std::string ProbeKey(const Node& node) const override;

  net::Loop& loop_;
  Servers& servers_;
  const std::function<void()> on_doubt_;
  const NodeContext node_context_;
  std::map<std::string, Entry> nodes_;  // by address
  bool has_layout_ = false;
  Node* only_ = nullptr;       // it owns every key
  bool by_slot_ = false;       // a node lets no script touch keys it has not declared
  std::vector<Node*> owners_;  // by slot; null: nobody. Empty unless clustered
  std::vector<std::unique_ptr<Node>> retired_;
  std::vector<StoreCheck*> try_again_;
  net::Timer try_again_timer_;
  net::Timer sweep_timer_;
};

}  // namespace sluice::redis
