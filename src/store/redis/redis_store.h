// The shared store: counters in Redis, where every check is decided by one atomic script on Redis'
// own clock, so that all servers on one Redis share one quota.
//
// Thread-safe. Owns its threads, "redis-0" and so on, one per loop; a check goes to the loop that
// its first key hashes to, so that equal checks meet and can be sent as one.
#pragma once

#include <memory>
#include <vector>

#include "store/redis/redis_loop.h"
#include "store/redis/redis_url.h"
#include "store/store.h"

namespace sluice {

class RedisStore final : public Store {
 public:
  struct Options {
    std::size_t loops = 1;  // threads, each with one connection
    redis::RedisLoop::Options loop;
  };

  // Begins to connect at once and for ever goes on trying; checks fail with kUnreachable while
  // there is no connection.
  RedisStore(const RedisUrl& url, const Options& options);

  // REQUIRES: no check is under way.
  ~RedisStore() override;

  void Submit(StoreCheck& check) override;
  void Reset(StoreReset& reset) override;

  // Waits until all connections are ready, at most so long. Returns whether they are.
  bool WaitUntilReady(Duration at_most);

 private:
  void BeginBurst() override;
  void EndBurst() override;
  redis::RedisLoop& LoopOf(std::string_view key);

  std::vector<std::unique_ptr<redis::RedisLoop>> loops_;
};

}  // namespace sluice
