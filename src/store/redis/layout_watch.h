// Polls servers (sentinels, or nodes of a Cluster) for the layout of a store: every second, and
// more often while the layout is in doubt. Moves to the next server if the current server does not
// answer or the doubt persists.
//
// On io-0. Derived classes implement the query and parse the replies.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "net/timer_queue.h"
#include "store/redis/connection.h"
#include "store/redis/topology.h"

namespace sluice::redis {

class LayoutWatch : public Topology, private Connection::Owner {
 public:
  void Start() override { connection_.Start(); }
  void Stop() override;
  void OnLayoutSuspect() override;

 protected:
  // `servers`: the servers to query; not empty.
  LayoutWatch(std::vector<Address> servers, TopologyContext context);

  // Sends the query.
  virtual void Ask(Connection& connection) = 0;
  // Handles a reply or a message pushed by the server. Calls OnAnswer if it contains the layout,
  // and OnNoAnswer if the query has failed.
  virtual void Read(const redisReply& reply) = 0;

  void OnAnswer(Layout layout);
  // The answer is not a layout, so the next server is queried.
  void OnNoAnswer(std::string_view cause) { connection_.Restart(cause); }

  // The server that is being queried.
  const Address& asked() const { return servers_[place_]; }
  // Sets the servers to query. If the current server is not among them, the next query goes to
  // another server.
  void SetServers(std::vector<Address> servers);

 private:
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::milliseconds kInDoubt{50};  // between two queries
  // The maximum wait for the next bytes of an answer. The whole answer, such as the map of a large
  // Cluster, may take up to kWholeAnswer.
  static constexpr std::chrono::milliseconds kSilence{500};
  static constexpr std::chrono::seconds kWholeAnswer{10};
  // If the doubt lasts this long, the next server is queried.
  static constexpr std::chrono::seconds kLastingDoubt{1};

  // The size of the map of a Cluster in which each slot is a separate range with two replicas.
  static constexpr ReplySize kSlotMap{.bytes = std::size_t{16} << 20,
                                      .elements = std::size_t{1} << 19};

  std::optional<Address> AddressToTry() override;
  void OnReady() override { AskNow(); }
  ReplySize LargestReply() const override { return kSlotMap; }
  void OnReply(const redisReply& reply) override { Read(reply); }
  void OnPartOfReply() override;
  void OnDown(std::string_view) override { timer_.Cancel(); }
  void OnFailedAttempt(std::string_view) override { timer_.Cancel(); }

  void OnTime();
  void AskNow();

  net::Loop& loop_;
  const OnLayout on_layout_;
  std::vector<Address> servers_;
  std::size_t place_;
  bool leaves_ = false;  // the current server is not to be queried anymore
  bool awaits_answer_ = false;
  SteadyTime asked_at_;
  std::optional<SteadyTime> in_doubt_since_;
  Layout latest_;
  net::Timer timer_;  // the next query; while an answer is awaited, its timeout
  Connection connection_;
};

}  // namespace sluice::redis
