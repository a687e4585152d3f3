// What one loop has of a server: its connections, its calls and streams, and its share of the
// limits. Shards of a server share nothing but SharedState.
//
// Loop thread only.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/epoll_loop.h"
#include "net/io_threads.h"
#include "rpc/http2/balance.h"
#include "rpc/http2/call_pool.h"
#include "rpc/http2/inflater.h"
#include "rpc/http2/shared_state.h"
#include "rpc/http2/stream.h"

namespace sluice::rpc::http2 {

class Connection;

class Shard {
 public:
  // `shared` must outlive the shard; `loop` is one of `threads`.
  Shard(SharedState& shared, net::IoThreads& threads, net::EpollLoop& loop);
  ~Shard();

  net::EpollLoop& loop() { return loop_; }
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

  // `place` is the connection's on this loop.
  void AddConnection(net::Socket socket, net::IoThreads::Place place);
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
  Loads CurrentLoads();

  SharedState& shared_;
  net::IoThreads& threads_;
  net::EpollLoop& loop_;
  CallQuota quota_;
  Inflater inflater_;
  std::unordered_map<std::string_view, std::unique_ptr<CallPool>> pools_;
  CallPool* last_pool_ = nullptr;  // found last
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Stream*> free_streams_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::size_t published_calls_ = 0;
  Balance balance_;
  net::Timer balance_timer_;
  bool draining_ = false;
};

}  // namespace sluice::rpc::http2
