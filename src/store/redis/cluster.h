// The slot map of a Redis Cluster, from CLUSTER SLOTS.
//
// On io-0.
#pragma once

#include <vector>

#include "store/redis/layout_watch.h"

namespace sluice::redis {

class Cluster final : public LayoutWatch {
 public:
  Cluster(const RedisUrl& url, TopologyContext context)
      : LayoutWatch(url.addresses, std::move(context)), seeds_(url.addresses) {}

 private:
  void Ask(Connection& connection) override;
  void Read(const redisReply& reply) override;

  const std::vector<Address> seeds_;
};

}  // namespace sluice::redis
