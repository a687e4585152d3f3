// A connection of a caller: its transport, its HTTP/2 session and its timeouts.
//
//   open ──Drain──▶ noticed ──PING answered, or 1 s──▶ draining ──no calls──▶ lingering ──▶ closed
//
// noticed: a first GOAWAY has announced the shutdown, but new calls are still accepted.
// draining: the final GOAWAY is sent; open calls finish. lingering: FIN is sent, and the connection
// reads until the peer closes, so that the peer receives all output.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/loop_connections.h"
#include "net/timer_queue.h"
#include "net/transport.h"
#include "rpc/http2/session.h"
#include "rpc/http2/shard.h"

namespace sluice::rpc::http2 {

class Connection final : public net::ServedConnection {
 public:
  // `shard` must outlive the connection.
  Connection(Shard& shard, net::TransportPtr transport, bool has_place);
  ~Connection() override;

  // net::ServedConnection.
  void Start() override;
  void Drain() override;
  net::Occupant AsOccupant() const override;

 private:
  enum class State : std::uint8_t { kOpen, kNoticed, kDraining, kLingering, kClosed };

  // net::Protocol.
  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;

  void OnClose() override;
  void AfterInput(bool fine);
  void ReadWhileTaken();
  void EndNotice();
  void BeginLinger();
  void EndLinger();
  bool IsDone() const;
  void CheckTimes();
  SteadyTime NextCheck() const;
  void CheckBy(SteadyTime time);

  Shard& shard_;
  const Times& times_;
  Session session_;
  State state_ = State::kOpen;
  const SteadyTime started_;
  SteadyTime last_received_;
  SteadyTime last_taken_;  // when the transport last took output after it had sent all
  SteadyTime pinged_at_{};
  bool held_back_ = false;  // not reading, since the peer does not read
  net::Timer check_timer_;
  net::Timer resume_timer_;  // processes input left over from an iteration
  net::Timer drain_timer_;
};

}  // namespace sluice::rpc::http2
