// HTTP/2 on one connection: nghttp2's session, its streams, and what they may hold. No I/O, no
// timers: the Connection around it brings bytes and takes bytes.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/transport.h"
#include "rpc/http2/message_memory.h"
#include "rpc/http2/rate_guard.h"
#include "rpc/http2/stream.h"
#include "rpc/status.h"

struct nghttp2_session;

namespace sluice::rpc::http2 {

class Shard;

class Session {
 public:
  // Both must outlive the session.
  Session(Shard& shard, net::Transport& transport);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // For the connection. False: the peer violates the protocol; what is left to say is in the
  // output. If the bytes are more work than a turn should take, the session is paused(): the rest
  // is kept for Resume in a later turn. REQUIRES: not paused.
  bool Receive(std::string_view bytes);
  bool Resume() { return Receive(std::exchange(rest_, {})); }
  bool paused() const { return paused_; }
  void TakeOutput(std::string& out);
  // Nothing is to be received or sent any more.
  bool ended() const;

  // Ends all streams as if the peer had reset them.
  void CloseStreams();
  // Says GOAWAY with an error and closes all streams.
  void Abort(std::uint32_t error, std::string_view text);

  // Drain: BeginDrain says that GOAWAY will come, and pings; after the ack no call is on its way
  // that does not know, and EndDrain says that no more are taken.
  void BeginDrain();
  void EndDrain();
  bool draining() const { return draining_; }

  void SendPing();

  std::uint64_t TakeCallCount() { return std::exchange(calls_, 0); }

  // Requests that are not complete, and responses that the peer's window holds back. Since when the
  // oldest is; SteadyTime::max() if there is none.
  SteadyTime incomplete_since() const { return incomplete_.oldest(); }
  SteadyTime untaken_since() const { return untaken_.oldest(); }
  // Ends those that have been so since `time`.
  void EndIncomplete(SteadyTime time);
  void EndUntaken(SteadyTime time);

  bool has_streams() const { return !streams_.empty(); }
  bool settled() const { return settled_; }   // the peer has begun with HTTP/2
  bool pinged() const { return pings_ > 0; }  // a PING of ours is not answered

  // For streams.
  Shard& shard() { return shard_; }
  const net::Peer& peer() const { return transport_.peer(); }
  SteadyTime now() const;
  void SubmitResponse(Stream& stream);
  void SubmitTrailers(Stream& stream, const Status& status);
  void SubmitTrailersOnly(Stream& stream, const Status& status);
  void SubmitHttpError(Stream& stream, std::string_view http_status);
  void ResumeOutput(std::int32_t id);
  void ReturnWindow(std::int32_t id, std::size_t bytes);
  MessageMemory& memory() { return memory_; }
  void NoteIncomplete(Stream& stream) { incomplete_.Add(stream, now()); }
  void NoteUntaken(Stream& stream) { untaken_.Add(stream, now()); }
  void RequestCallbacks(Stream& stream);
  // The stream has ended, and its answer was sent. Calls `on_lost` if the caller resets the stream
  // all the same: it had given up before the answer came.
  void RememberAnswer(std::int32_t id, std::function<void()> on_lost);

 private:
  struct Callbacks;  // nghttp2's

  void SubmitSettings();
  Stream* Find(std::int32_t id);
  void OpenStream(std::int32_t id);
  void CloseStream(std::int32_t id);
  void Discard(Stream& stream);
  void RunCallbacks();
  // False: no more in this turn.
  bool OnData(std::int32_t id, std::string_view bytes, bool last_frame);
  // What the peer and we have sent. False: it is a flood.
  bool OnFrame(std::uint8_t type, std::uint8_t flags, std::int32_t id);
  bool CountControl(const char* flood);
  bool CountReset(std::int32_t id);
  void LoseAnswer(std::int32_t id);
  void OnFrameSent(std::uint8_t type, std::uint8_t flags, std::int32_t id);

  Shard& shard_;
  net::Transport& transport_;
  nghttp2_session* nghttp2_ = nullptr;

  std::vector<Stream*> streams_;
  std::vector<Stream*> with_callbacks_;
  StreamQueue incomplete_;
  StreamQueue untaken_;
  // Answers sent of late whose loss matters, oldest first. A reset that has crossed one comes
  // within a round trip.
  struct SentAnswer {
    std::int32_t stream = 0;
    SteadyTime sent;
    std::function<void()> on_lost;
  };
  std::deque<SentAnswer> sent_answers_;

  std::int32_t found_id_ = 0;  // the stream that Find has found last
  Stream* found_ = nullptr;

  std::uint64_t calls_ = 0;
  MessageMemory memory_;
  std::size_t received_ = 0;         // bytes of DATA in this Receive
  std::size_t inflated_before_ = 0;  // by the shard's inflater, before this Receive
  std::string rest_;                 // of what was received when the session was paused
  RateGuard young_resets_;
  RateGuard controls_;  // PING and SETTINGS
  int pings_ = 0;
  bool paused_ = false;
  bool settled_ = false;
  bool draining_ = false;
  bool early_ends_ = false;      // a response has ended before its request
  const char* flood_ = nullptr;  // of what the peer sends too much
};

}  // namespace sluice::rpc::http2
