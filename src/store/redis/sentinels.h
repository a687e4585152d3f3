// The master named by sentinels. Queries one sentinel as LayoutWatch does, and follows the
// sentinel's +switch-master messages. Each connection for checks verifies that its node is a
// master.
//
// On io-0.
#pragma once

#include <string>

#include "store/redis/layout_watch.h"

namespace sluice::redis {

class Sentinels final : public LayoutWatch {
 public:
  Sentinels(const RedisUrl& url, TopologyContext context);

 private:
  void Ask(Connection& connection) override;
  void Read(const redisReply& reply) override;
  void Use(std::string_view host, std::string_view port);

  const std::string master_;
};

}  // namespace sluice::redis
