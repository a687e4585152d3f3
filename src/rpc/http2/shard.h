// The part of a server on one loop: its connections, calls, streams and share of the limits. Shards
// of a server share only SharedState.
//
// Loop thread only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/io_threads.h"
#include "net/loop.h"
#include "rpc/http2/call_pool.h"
#include "rpc/http2/inflater.h"
#include "rpc/http2/loop_balancer.h"
#include "rpc/http2/peer_use.h"
#include "rpc/http2/reuse_pool.h"
#include "rpc/http2/shared_state.h"
#include "rpc/http2/stream.h"

namespace sluice::rpc::http2 {

class Connection;

class Shard {
 public:
  // Returns the loads of this loop and the others. Null if there is only one loop.
  using CompareLoads = std::function<LoopLoads()>;

  // `shared` and `loop` must outlive the shard.
  Shard(SharedState& shared, net::Loop& loop, std::size_t loops, CompareLoads compare_loads);
  ~Shard();

  net::Loop& loop() { return loop_; }
  const ServerOptions& options() const { return shared_.options; }
  const Times& times() const { return shared_.times; }
  SharedState& shared() { return shared_; }
  CallQuota& quota() { return quota_; }
  Inflater& inflater() { return inflater_; }
  // Inflating a few bytes can take as long as a thousand calls, so beyond this other connections
  // run between.
  static constexpr std::size_t kInflatedBytesPerIteration = 64 * 1024;
  // Whether this iteration has inflated less, over all connections.
  bool MayInflate();
  void Count(Refusal refusal) { shared_.metrics.Count(refusal); }

  // Null if the server has no such method.
  CallPool* FindMethod(std::string_view path);

  // The peer that `network` names. REQUIRES: ForgetPeer is called for each call of this.
  PeerUse& FindPeer(const std::string& network);
  void ForgetPeer(const std::string& network);

  Stream& TakeStream();
  void ReturnStream(Stream& stream) { streams_.Return(stream); }

  // The number of unary calls on this loop so far.
  struct UnaryCalls {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
  };
  UnaryCalls& unary_calls() { return unary_calls_; }

  // `place`: the connection's place on this loop. REQUIRES: if it has a place among the server's
  // connections, shared().connections already counts it.
  void AddConnection(net::TransportPtr transport, net::IoThreads::Place place,
                     bool has_place = true);
  // Closes connections to make room for one from `newcomer` (net/eviction.h). Returns false if none
  // may be closed.
  bool MakeRoom(std::string_view newcomer);
  // Destroys the connection at the end of the iteration.
  void RemoveConnection(Connection& connection);

  // Drains all connections, including those added later.
  void Drain();
  void CloseConnections();

  // Called for each connection with output, at the end of an iteration.
  void OnIteration();
  void PublishOpenCalls();

 private:
  void Rebalance();
  void TrimPools();

  SharedState& shared_;
  net::Loop& loop_;
  const CompareLoads compare_loads_;
  CallQuota quota_;
  Inflater inflater_;
  SteadyTime inflate_iteration_{};   // that inflated_before_ is of
  std::size_t inflated_before_ = 0;  // before the iteration
  std::unordered_map<std::string_view, std::unique_ptr<CallPool>> pools_;
  CallPool* last_pool_ = nullptr;                   // the last result of FindMethod
  std::unordered_map<std::string, PeerUse> peers_;  // with a connection
  ReusePool<Stream> streams_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::deque<Connection*> without_place_;  // the oldest first
  UnaryCalls unary_calls_;
  std::size_t published_calls_ = 0;
  LoopBalancer balance_;
  net::Timer balance_timer_;
  net::Timer trim_timer_;
  bool draining_ = false;
};

}  // namespace sluice::rpc::http2
