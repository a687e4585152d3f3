#include "tests/support/redis_cluster.h"

#include <algorithm>
#include <cctype>

#include "tests/support/require.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

constexpr int kSlots = 16384;

bool IsSlot(const std::string& text) {
  return text.size() <= 5 &&
         std::all_of(text.begin(), text.end(), [](char c) { return isdigit(c); });
}

bool Contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

RedisCluster::RedisCluster(const Options& options)
    : tls_(options.tls), node_timeout_(options.node_timeout), arguments_(options.arguments) {
  const int nodes = options.masters * (1 + options.replicas);
  for (int i = 0; i < nodes; ++i) AddNode();
  for (int i = 0; i < options.masters; ++i) {
    const int first = kSlots * i / options.masters;
    const int last = kSlots * (i + 1) / options.masters - 1;
    nodes_[i]->Connect().Text(
        {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(last)});
  }
  AwaitAllSlotsServed();
  MakeReplicas(options.masters);
}

std::size_t RedisCluster::AddMaster() {
  AddNode();
  AwaitAllSlotsServed();
  return nodes_.size() - 1;
}

void RedisCluster::AddNode() {
  const std::size_t index = nodes_.size();
  std::vector<std::string> arguments = arguments_;
  arguments.insert(arguments.end(),
                   {"--cluster-enabled", "yes", "--cluster-port", std::to_string(FreePort()),
                    "--cluster-node-timeout", node_timeout_, "--cluster-replica-validity-factor",
                    "0", "--repl-diskless-sync-delay", "0", "--tls-cluster", tls_ ? "yes" : "no",
                    "--tls-replication", tls_ ? "yes" : "no"});
  nodes_.push_back(std::make_unique<RedisServer>(
      RedisServer::Options{.tcp = !tls_, .tls = tls_, .arguments = arguments}));
  alive_.push_back(true);
  // Two masters must not claim slots with the same epoch.
  nodes_.back()->Connect().Text({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(index + 1)});
  if (index > 0) Join(index);
}

void RedisCluster::Join(std::size_t index) {
  const auto bus_port = nodes_[0]->Connect().List({"CONFIG", "GET", "cluster-port"})[1];
  nodes_[index]->Connect().Text(
      {"CLUSTER", "MEET", "127.0.0.1", std::to_string(nodes_[0]->port()), bus_port});
  const std::string known = "cluster_known_nodes:" + std::to_string(index + 1) + "\r";
  const bool joined = WaitUntil(kTopologyTimeout, [&] {
    for (std::size_t i = 0; i <= index; ++i) {
      if (alive_[i] && !Contains(nodes_[i]->Connect().Text({"CLUSTER", "INFO"}), known))
        return false;
    }
    return true;
  });
  Require(joined, "a node does not learn of the others");
}

void RedisCluster::MakeReplicas(int masters) {
  for (std::size_t i = masters; i < nodes_.size(); ++i) {
    nodes_[i]->Connect().Text({"CLUSTER", "REPLICATE", IdOf(i % masters)});
  }
  const bool linked = WaitUntil(kTopologyTimeout, [&] {
    for (std::size_t i = masters; i < nodes_.size(); ++i) {
      if (!nodes_[i]->IsInSync()) return false;
    }
    return true;
  });
  Require(linked, "the replicas do not follow");
  AwaitAllSlotsServed();
}

std::string RedisCluster::IdOf(std::size_t index) {
  return nodes_[index]->Connect().Text({"CLUSTER", "MYID"});
}

std::uint64_t RedisCluster::EpochOf(std::size_t index) {
  const std::string info = nodes_[index]->Connect().Text({"CLUSTER", "INFO"});
  const std::string_view name = "cluster_my_epoch:";
  return std::stoull(info.substr(info.find(name) + name.size()));
}

std::string RedisCluster::Url(const std::string& login) const {
  return (tls_ ? "rediss+cluster://" : "redis+cluster://") + login + nodes_[0]->tcp_address() +
         "," + nodes_[1]->tcp_address();
}

std::size_t RedisCluster::OwnerOf(std::uint16_t slot) {
  const auto first_alive = std::find(alive_.begin(), alive_.end(), true) - alive_.begin();
  // For each range of slots: first slot, last slot; then, for each node: host, port, id.
  const auto map = nodes_[first_alive]->Connect().List({"CLUSTER", "SLOTS"});
  for (std::size_t i = 0; i + 4 < map.size(); ++i) {
    const bool is_node = map[i + 2] == "127.0.0.1" || map[i + 2] == "?";
    if (!is_node || !IsSlot(map[i]) || !IsSlot(map[i + 1])) continue;
    if (slot < std::stoi(map[i]) || slot > std::stoi(map[i + 1])) continue;
    for (std::size_t node = 0; node < nodes_.size(); ++node) {
      if (std::to_string(nodes_[node]->port()) == map[i + 3]) return node;
    }
  }
  Require(false, "no node owns the slot");
  return 0;
}

void RedisCluster::BeginMove(std::uint16_t slot, std::size_t to) {
  const std::size_t from = OwnerOf(slot);
  const std::string number = std::to_string(slot);
  nodes_[to]->Connect().Text({"CLUSTER", "SETSLOT", number, "IMPORTING", IdOf(from)});
  nodes_[from]->Connect().Text({"CLUSTER", "SETSLOT", number, "MIGRATING", IdOf(to)});
}

std::size_t RedisCluster::MoveKeys(std::uint16_t slot, std::size_t to, std::size_t count) {
  auto from = nodes_[OwnerOf(slot)]->Connect();
  const auto keys =
      from.List({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(count)});
  for (const std::string& key : keys) {
    from.Text({"MIGRATE", "127.0.0.1", std::to_string(nodes_[to]->port()), key, "0", "5000"});
  }
  return keys.size();
}

// If several nodes claim a slot, the greatest epoch wins. So the new owner must have a greater
// epoch than `from` before it claims the slot. Otherwise, other nodes would tell the new owner that
// `from` owns the slot, and the new owner would delete the slot's keys.
void RedisCluster::FinishMove(std::uint16_t slot, std::size_t to) {
  const std::size_t from = OwnerOf(slot);
  auto owner = nodes_[to]->Connect();
  const bool greater = WaitUntil(kTopologyTimeout, [&] {
    owner.Text({"CLUSTER", "BUMPEPOCH"});  // the new epoch exceeds all that `to` has received
    return EpochOf(from) < EpochOf(to);
  });
  Require(greater, "the epoch of a slot's new owner stays too low");
  const RedisConnection::Command finish{"CLUSTER", "SETSLOT", std::to_string(slot), "NODE",
                                        IdOf(to)};
  owner.Text(finish);
  // If `from` has lost its last slot, it has become a replica and rejects the command.
  nodes_[from]->Connect().ErrorOf(finish);
}

void RedisCluster::Move(std::uint16_t slot, std::size_t to) {
  BeginMove(slot, to);
  while (MoveKeys(slot, to) > 0) {
  }
  FinishMove(slot, to);
}

void RedisCluster::AwaitAllSlotsServed() {
  const bool served = WaitUntil(kTopologyTimeout, [&] {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (alive_[i] &&
          !Contains(nodes_[i]->Connect().Text({"CLUSTER", "INFO"}), "cluster_state:ok")) {
        return false;
      }
    }
    return true;
  });
  Require(served, "a node does not know the owners of all slots");
}

void RedisCluster::Kill(std::size_t index) {
  alive_[index] = false;
  nodes_[index]->Kill();
}

void RedisCluster::Flush() {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!alive_[i]) continue;
    auto connection = nodes_[i]->Connect();
    if (Contains(connection.Text({"INFO", "replication"}), "role:master")) {
      connection.Text({"FLUSHALL"});
    }
  }
}

}  // namespace sluice::test
