// One server's membership in a fleet. The server reports to Redis every second, and learns from the
// replies how many servers there are. A server that has not reported for kGoneAfter is no longer
// counted.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "net/loop.h"
#include "net/timer_queue.h"
#include "store/redis/connection.h"
#include "store/redis/server_status.h"

namespace sluice::redis {

// A server's view of its fleet.
struct FleetView {
  bool connected = false;    // Redis has answered the last report, perhaps with an error
  bool accepted = false;     // Redis has answered the last report without an error
  std::int64_t servers = 0;  // the recent maximum; 0: Redis has never counted them
  std::int64_t rank = 0;     // among the current servers, by name, from 0
};

class FleetMember final : private Connection::Owner {
 public:
  // A sorted set of the servers' names. The score is the time of the server's last report, in
  // milliseconds.
  static constexpr std::string_view kKey = "sluice:{fleet}";

  using OnView = std::function<void(const FleetView&)>;

  struct Context {
    net::Loop& loop;
    ServerAccess access;
    // The Redis node that owns kKey; empty while none is known.
    std::function<std::optional<Address>()> server;
    ServerStatus& status;  // of that node
  };

  // Starts to connect immediately. `on_view` is called after each reply to a report, and when the
  // connection is lost or cannot be made. The objects that `context` refers to must outlive this.
  FleetMember(Context context, OnView on_view);

  // Stops reporting, so the server leaves the fleet. Permanent.
  void Stop();

 private:
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::seconds kGoneAfter{5};
  // Enough for the names of 10,000 servers.
  static constexpr ReplySize kNames{.bytes = std::size_t{1} << 20, .elements = 10'000};
  // Each reply gives the number of servers. The numbers in the last kRemembered replies are
  // remembered: those of five minutes. In an outage, no report is answered, so no number is
  // forgotten.
  static constexpr std::size_t kRemembered = 300;

  std::optional<Address> AddressToTry() override { return asked_ ? asked_ : server_(); }
  void OnTime();
  void Report();
  void OnReady() override { OnTime(); }
  ReplySize LargestReply() const override { return kNames; }
  void OnReply(const redisReply& reply) override;
  void OnDown(std::string_view) override { Lose(); }
  void OnFailedAttempt(std::string_view) override { Lose(); }
  void FollowRedirect(std::string_view error);
  void Lose();
  void See(const redisReply& names);

  net::Loop& loop_;
  const std::function<std::optional<Address>()> server_;
  ServerStatus& status_;
  std::optional<Address> asked_;  // the node to which kKey's slot is being migrated
  const OnView on_view_;
  const std::string name_;  // random
  net::Timer timer_;
  bool awaits_reply_ = false;
  std::deque<std::int64_t> seen_;  // the numbers of servers in the last replies
  FleetView view_;
  Connection connection_;
};

}  // namespace sluice::redis
