#include <utility>

#include "store/redis/cluster.h"
#include "store/redis/sentinels.h"
#include "store/redis/topology.h"

namespace sluice::redis {
namespace {

// One node, which owns every key.
class SingleServer final : public Topology {
 public:
  SingleServer(const RedisUrl& url, TopologyContext context)
      : address_(url.addresses.front()), on_layout_(std::move(context.on_layout)) {}

  void Start() override {
    on_layout_(std::make_shared<const Layout>(Layout{.servers = {address_}, .owners = {}}));
  }
  void Stop() override {}
  void OnLayoutSuspect() override {}

 private:
  const Address address_;
  const OnLayout on_layout_;
};

}  // namespace

std::unique_ptr<Topology> MakeTopology(const RedisUrl& url, TopologyContext context) {
  switch (url.kind) {
    case RedisUrl::Kind::kSingle:
      break;
    case RedisUrl::Kind::kSentinel:
      return std::make_unique<Sentinels>(url, std::move(context));
    case RedisUrl::Kind::kCluster:
      return std::make_unique<Cluster>(url, std::move(context));
  }
  return std::make_unique<SingleServer>(url, std::move(context));
}

}  // namespace sluice::redis
