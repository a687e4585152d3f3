// One connection of a caller: its transport, its HTTP/2 session, and the times it must keep.
//
//   open ──Drain──▶ noticed ──PING answered, or 1 s──▶ draining ──no calls──▶ lingering ──▶ closed
//
// noticed: the peer knows that GOAWAY will come. draining: it has come; calls under way end.
// lingering: we have sent FIN, and read to the end, so that the peer gets all that was sent.
//
// Loop thread only. Belongs to a Shard, and takes itself off its list when it is closed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/io_threads.h"
#include "net/timer_wheel.h"
#include "net/transport.h"
#include "rpc/http2/session.h"
#include "rpc/http2/shared_state.h"

namespace sluice::rpc::http2 {

class Connection final : public net::Protocol, public net::Disposable {
 public:
  // REQUIRES: shard.shared().connections counts it.
  Connection(Shard& shard, net::TransportPtr transport, net::IoThreads::Place loop_place);
  ~Connection() override;

  void Start();

  // Lets calls under way end, then closes the connection.
  void Drain();

  // At once.
  void Close();

  // Calls that have begun since the last time.
  std::uint64_t TakeCallCount() { return session_.TakeCallCount(); }

  // net::Protocol.
  void Receive(std::string_view bytes) override;
  void TakeOutput(std::string& out) override;
  void OnClosed(Closure closure, std::string_view cause) override;

  std::size_t place = 0;  // in the shard's list

 private:
  enum class State : std::uint8_t { kOpen, kNoticed, kDraining, kLingering, kClosed };

  void AfterInput(bool fine);
  void EndNotice();
  void BeginLinger();
  void EndLinger();
  void LingerIfDone();
  SteadyTime TooOldAt() const;
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
  SteadyTime last_received_;
  SteadyTime last_taken_;  // when the transport took output last, having sent all before
  SteadyTime pinged_at_{};
  net::Timer check_timer_;
  net::Timer resume_timer_;  // for what is left of a turn's input
  net::Timer drain_timer_;
};

}  // namespace sluice::rpc::http2
