// Asks servers for the layout of a store: every few seconds, soon when there is doubt, and the next
// server when one does not answer or the doubt lasts.
//
// On io-0. Derived classes know what to ask and how to read the answers.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "net/timer_wheel.h"
#include "store/redis/connection.h"
#include "store/redis/topology.h"

namespace sluice::redis {

class LayoutWatch : public Topology, private Connection::Owner {
 public:
  void Start() override { connection_.Start(); }
  void Stop() override;
  void OnDoubt() override;

 protected:
  // `servers`: whom to ask; not empty.
  LayoutWatch(std::vector<Address> servers, TopologyContext context);

  // Sends the question.
  virtual void Ask(Connection& connection) = 0;
  // A reply to it, or what the server says by itself. Calls OnAnswer or OnNoAnswer.
  virtual void Read(const redisReply& reply) = 0;

  void OnAnswer(Layout layout);
  // What it says is no layout; the next server is asked.
  void OnNoAnswer(std::string_view cause);

  // The server that is being asked.
  const Address& asked() const { return servers_[place_]; }
  // Whom to ask from now on. If the server that is being asked is not among them, it is left.
  void SetServers(std::vector<Address> servers);

 private:
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::milliseconds kInDoubt{50};  // between two questions
  static constexpr std::chrono::milliseconds kPatience{500};
  // Doubt that lasts for so long is not cured by the server that is being asked.
  static constexpr std::chrono::seconds kLastingDoubt{1};

  std::optional<Address> AddressToTry() override;
  void OnReady() override { AskNow(); }
  void OnReply(const redisReply& reply) override { Read(reply); }
  void OnDown() override { timer_.Cancel(); }
  void OnFailedAttempt() override { timer_.Cancel(); }

  void OnTime();
  void AskNow();

  net::Loop& loop_;
  const OnLayout on_layout_;
  std::vector<Address> servers_;
  std::size_t place_;
  bool tried_ = false;   // servers_[place_]
  bool leaves_ = false;  // the server is not to be asked any more
  bool awaits_answer_ = false;
  SteadyTime asked_at_;
  std::optional<SteadyTime> in_doubt_since_;
  Layout latest_;
  net::Timer timer_;  // ask; or, while an answer is awaited, it is late
  Connection connection_;
};

}  // namespace sluice::redis
