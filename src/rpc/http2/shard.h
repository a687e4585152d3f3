// What the connections of a server share on one loop: its LoopState, and reusable streams and
// calls.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "net/loop.h"
#include "net/timer_queue.h"
#include "rpc/http2/call_pool.h"
#include "rpc/http2/loop_state.h"
#include "rpc/http2/reuse_pool.h"
#include "rpc/http2/stream.h"

namespace sluice::rpc::http2 {

class Shard {
 public:
  // Both must outlive the shard.
  Shard(SharedState& shared, net::Loop& loop);
  ~Shard();

  LoopState& state() { return state_; }
  net::Loop& loop() { return state_.loop(); }

  // Returns null if no method has this path.
  CallPool* FindMethod(std::string_view path);

  Stream& TakeStream();
  void ReturnStream(Stream& stream) { streams_.Return(stream); }

  // Updates the metric of open calls.
  void PublishOpenCalls();

 private:
  void TrimPools();

  LoopState state_;
  std::unordered_map<std::string_view, std::unique_ptr<CallPool>> pools_;
  CallPool* last_pool_ = nullptr;  // the last result of FindMethod
  ReusePool<Stream> streams_;
  std::size_t published_calls_ = 0;
  net::Timer trim_timer_;
};

}  // namespace sluice::rpc::http2
