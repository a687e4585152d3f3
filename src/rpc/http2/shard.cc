#include "rpc/http2/shard.h"

#include <chrono>

namespace sluice::rpc::http2 {
namespace {

// The pools are trimmed while there are more streams than this.
constexpr std::size_t kKeptStreams = 256;
// Bounds the time that an iteration spends on trimming.
constexpr std::size_t kMaxTrimmed = 4'096;
constexpr std::chrono::seconds kTrimInterval(1);

}  // namespace

Shard::Shard(SharedState& shared, net::Loop& loop)
    : state_(shared, loop), trim_timer_(loop.timers(), [this] { TrimPools(); }) {
  for (const Method& method : shared.methods) {
    pools_.emplace(method.path, std::make_unique<CallPool>(state_, method));
  }
}

Shard::~Shard() { PublishOpenCalls(); }

CallPool* Shard::FindMethod(std::string_view path) {
  if (last_pool_ != nullptr && last_pool_->method().path == path) return last_pool_;
  const auto found = pools_.find(path);
  if (found == pools_.end()) return nullptr;
  last_pool_ = found->second.get();
  return last_pool_;
}

Stream& Shard::TakeStream() {
  if (streams_.size() > kKeptStreams && !trim_timer_.active()) {
    trim_timer_.Start(loop().now() + kTrimInterval);
  }
  return streams_.Take([] { return std::make_unique<Stream>(); });
}

// Each stream has at most one call, so the pools of calls shrink with the pool of streams.
void Shard::TrimPools() {
  streams_.Trim(kMaxTrimmed);
  for (const auto& [path, pool] : pools_) pool->Trim(kMaxTrimmed);
  if (streams_.size() > kKeptStreams) trim_timer_.Start(loop().now() + kTrimInterval);
}

void Shard::PublishOpenCalls() {
  const std::size_t open = streams_.in_use();
  if (open == published_calls_) return;
  state_.shared().metrics.open_calls.Add(static_cast<double>(open) -
                                         static_cast<double>(published_calls_));
  published_calls_ = open;
}

}  // namespace sluice::rpc::http2
