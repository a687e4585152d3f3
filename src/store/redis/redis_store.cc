#include "store/redis/redis_store.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"

namespace sluice {

RedisStore::RedisStore(const RedisUrl& url, const Options& options) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options.loops); ++i) {
    loops_.push_back(
        std::make_unique<redis::RedisLoop>(fmt::format("redis-{}", i), url, options.loop));
  }
}

RedisStore::~RedisStore() = default;

void RedisStore::Submit(StoreCheck& check) { LoopOf(check.counters.front().key).Submit(check); }

void RedisStore::Reset(StoreReset& reset) { LoopOf(reset.keys.front()).Reset(reset); }

void RedisStore::BeginBurst() {
  for (const auto& loop : loops_) loop->BeginBurst();
}

void RedisStore::EndBurst() {
  for (const auto& loop : loops_) loop->EndBurst();
}

redis::RedisLoop& RedisStore::LoopOf(std::string_view key) {
  return *loops_[Hash(key) % loops_.size()];
}

bool RedisStore::WaitUntilReady(Duration at_most) {
  const SteadyTime deadline = SteadyNow() + at_most;
  return std::all_of(loops_.begin(), loops_.end(),
                     [&](auto& loop) { return loop->WaitUntilReady(deadline); });
}

}  // namespace sluice
