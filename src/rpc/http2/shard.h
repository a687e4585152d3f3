// What one loop has of a server: its connections, its calls and streams, and its share of the
// limits. Shards of a server share nothing but SharedState.
//
// Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/io_threads.h"
#include "net/loop.h"
#include "rpc/http2/balance.h"
#include "rpc/http2/call_pool.h"
#include "rpc/http2/inflater.h"
#include "rpc/http2/shared_state.h"
#include "rpc/http2/stream.h"

namespace sluice::rpc::http2 {

class Connection;

class Shard {
 public:
  // How busy this loop is beside the others. Null: there are no others.
  using CompareLoads = std::function<Loads()>;

  // `shared` and `loop` must outlive the shard.
  Shard(SharedState& shared, net::Loop& loop, std::size_t loops, CompareLoads compare_loads);
  ~Shard();

  net::Loop& loop() { return loop_; }
  const ServerOptions& options() const { return shared_.options; }
  const Times& times() const { return shared_.times; }
  SharedState& shared() { return shared_; }
  CallQuota& quota() { return quota_; }
  Inflater& inflater() { return inflater_; }
  void Count(Refusal refusal) { shared_.metrics.Count(refusal); }

  // Null if the server has no such method.
  CallPool* FindMethod(std::string_view path);

  Stream& TakeStream();
  void ReturnStream(Stream& stream) { free_streams_.push_back(&stream); }

  // Unary calls of this loop so far.
  struct UnaryCalls {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
  };
  UnaryCalls& unary_calls() { return unary_calls_; }

  // `place` is the connection's on this loop. REQUIRES: shared().connections counts it.
  void AddConnection(net::TransportPtr transport, net::IoThreads::Place place);
  // Destroys it at the end of the turn.
  void RemoveConnection(Connection& connection);

  // Drains all connections, those that come later too; closes all.
  void Drain();
  void CloseConnections();

  // At the end of a connection's turn.
  void OnTurn();
  void PublishOpenCalls();

 private:
  void JudgeBalance();

  SharedState& shared_;
  net::Loop& loop_;
  const CompareLoads compare_loads_;
  CallQuota quota_;
  Inflater inflater_;
  std::unordered_map<std::string_view, std::unique_ptr<CallPool>> pools_;
  CallPool* last_pool_ = nullptr;  // found last
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> free_streams_;
  std::vector<std::unique_ptr<Connection>> connections_;
  UnaryCalls unary_calls_;
  std::size_t published_calls_ = 0;
  Balance balance_;
  net::Timer balance_timer_;
  bool draining_ = false;
};

}  // namespace sluice::rpc::http2
