// The master that sentinels name. It is followed by what they publish (+switch-master), and asked
// for when there is doubt; servers are asked whether they are a master when we connect to them.
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
