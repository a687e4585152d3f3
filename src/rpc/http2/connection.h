// A connection of a caller: its transport, its HTTP/2 session and its timeouts.
//
//   open ──Drain──▶ noticed ──PING answered, or 1 s──▶ draining ──no calls──▶ lingering ──▶ closed
//
// noticed: a first GOAWAY has announced the shutdown, but new calls are still accepted.
// draining: the final GOAWAY is sent; open calls finish. lingering: FIN is sent, and the connection
// reads until the peer closes, so that the peer receives all output.
//
// Loop thread only. Owned by a Shard, and removed from it when closed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/eviction.h"
#include "net/io_threads.h"
#include "net/timer_wheel.h"
#include "net/transport.h"
#include "rpc/http2/session.h"
#include "rpc/http2/shared_state.h"

namespace sluice::rpc::http2 {

class Connection final : public net::Protocol, public net::Disposable {
 public:
  // REQUIRES: if it has a place, shard.shared().connections already counts this connection.
  // Without a place among the server's connections, only probes are answered, and it ends soon.
  Connection(Shard& shard, net::TransportPtr transport, net::IoThreads::Place loop_place,
             bool has_place);
  ~Connection() override;

  void Start();

  // Lets open calls finish, then closes the connection.
  void Drain();

  // Closes the connection at once.
  void Close();

  bool has_place() const { return has_place_; }
  net::Occupant AsOccupant() const;

  // The number of calls begun since the last call of this function.
  std::uint64_t TakeCallCount() { return session_.TakeCallCount(); }

  // net::Protocol.
  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;

  std::size_t place = 0;  // in the shard's list

 private:
  enum class State : std::uint8_t { kOpen, kNoticed, kDraining, kLingering, kClosed };

  void AfterInput(bool fine);
  void ReadWhileTaken();
  void Discard(std::size_t bytes);
  void EndNotice();
  void BeginLinger();
  void EndLinger();
  bool IsDone() const;
  void CheckTimes();
  SteadyTime NextCheck() const;
  void CheckBy(SteadyTime time);

  Shard& shard_;
  const Times& times_;
  const net::IoThreads::Place loop_place_;
  net::TransportPtr transport_;
  Session session_;
  State state_ = State::kOpen;
  const SteadyTime started_;
  const SteadyTime too_old_at_;
  const bool has_place_;
  const SteadyTime ends_at_;  // the end of its life; max() with a place
  SteadyTime last_received_;
  SteadyTime last_taken_;  // the last time the transport took output, having sent all before it
  SteadyTime pinged_at_{};
  bool held_back_ = false;     // not reading, since the peer does not read
  std::size_t discarded_ = 0;  // bytes received while lingering
  net::Timer check_timer_;
  net::Timer resume_timer_;  // processes input left over from an iteration
  net::Timer drain_timer_;
};

}  // namespace sluice::rpc::http2
