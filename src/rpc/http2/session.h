// HTTP/2 on one connection: nghttp2's session, its streams and their limits. Does no I/O and has no
// timers: its Connection passes bytes in and out.
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
#include "rpc/http2/shared_state.h"
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

  // For the connection. Returns false if the peer has violated the protocol; the output then ends
  // with GOAWAY. If `bytes` take too much work for one iteration, the session is paused() and keeps
  // the rest for Resume in a later iteration. REQUIRES: not paused.
  bool Receive(std::string_view bytes);
  bool Resume() { return Receive(std::exchange(rest_, {})); }
  bool paused() const { return paused_; }
  void TakeOutput(std::string& out);
  // Whether the session has nothing more to receive or send.
  bool ended() const;

  // Closes all streams as if the peer had reset them.
  void CloseStreams();
  // Sends GOAWAY with an error and closes all streams.
  void Abort(std::uint32_t error, std::string_view text);

  // BeginDrain sends a first GOAWAY, which announces the shutdown, and a PING. After its ack the
  // peer starts no new calls, and EndDrain sends the final GOAWAY.
  void BeginDrain();
  void EndDrain();
  bool draining() const { return draining_; }

  void SendPing();

  std::uint64_t TakeCallCount() { return std::exchange(calls_, 0); }

  // The time since which the oldest request has been incomplete, and the time since which bytes of
  // a response have waited for the peer to take them. SteadyTime::max() if no request or response
  // waits.
  SteadyTime incomplete_since() const { return incomplete_.oldest(); }
  SteadyTime untaken_since() const { return untaken_.oldest(); }
  // Ends those that date from `time` or before. Returns false if the session can no longer receive.
  bool EndIncomplete(SteadyTime time);
  void EndUntaken(SteadyTime time);

  bool has_streams() const { return !streams_.empty(); }
  // Whether calls are open other than those of probes.
  bool has_calls() const { return streams_.size() > static_cast<std::size_t>(probes_); }
  // From now on, only probes are admitted.
  void AdmitOnlyProbes() { only_probes_ = true; }
  bool settled() const { return settled_; }   // the peer has sent its SETTINGS
  bool pinged() const { return pings_ > 0; }  // a PING waits for its ack

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
  void NoteIncomplete(Stream& stream) { incomplete_.Add(stream.incomplete, now()); }
  void NoteUntaken(Stream& stream) { untaken_.Add(stream.untaken, now()); }
  void RequestCallbacks(Stream& stream);
  // The stream is closed and its response was sent. Calls `on_lost` if the caller still resets the
  // stream: it gave up before the response arrived.
  void TrackResponse(std::int32_t id, std::function<void()> on_lost);

 private:
  struct Callbacks;  // for nghttp2

  // A header block beyond this size ends the connection. Smaller ones beyond RequestHead::kMaxBytes
  // get an error, but to decompress them takes time: a byte can stand for a field of 4 KB.
  static constexpr std::size_t kMaxHeaderBlock = 16 * RequestHead::kMaxBytes;
  // Beyond, other connections run between: 16 KiB received can stand for a thousand times as much.
  static constexpr std::size_t kHeaderBytesPerIteration = 64 * 1024;

  void SubmitSettings();
  Stream* Find(std::int32_t id);
  void OpenStream(std::int32_t id);
  void CloseStream(std::int32_t id);
  void Discard(Stream& stream);
  void Reset(Stream& stream, std::uint32_t error);
  // Counts the stream among the open calls, or refuses it.
  bool Admit(Stream& stream, const CallPool* method);
  bool HasPlace(const Stream& stream);
  void BoundOutput();
  void RunCallbacks();
  // Returns false to pause until a later iteration.
  bool OnData(std::int32_t id, std::string_view bytes, bool last_frame);
  // Frames received and sent. Returns false if the peer floods the session.
  bool OnFrame(std::uint8_t type, std::uint8_t flags, std::int32_t id);
  // Counts a field of a header block, after decompression. Returns false if it is time to pause.
  bool CountField(std::size_t bytes) {
    heads_received_ += bytes;
    return heads_received_ <= kHeaderBytesPerIteration;
  }
  // Returns false if the header block has become too large.
  bool PauseInHeaders();
  bool CountControl(const char* flood);
  bool OnReset(std::int32_t id);
  bool CountReset();
  void OnResponseLost(std::int32_t id);
  void OnFrameSent(std::uint8_t type, std::uint8_t flags, std::int32_t id);
  void OnResetSent(std::uint32_t error);

  Shard& shard_;
  net::Transport& transport_;
  nghttp2_session* nghttp2_ = nullptr;

  std::vector<Stream*> streams_;
  std::vector<Stream*> with_callbacks_;
  StreamQueue incomplete_;
  StreamQueue untaken_;
  // Recently sent answers with an on_lost callback, oldest first. A reset that crossed an answer
  // arrives within a round trip.
  struct SentAnswer {
    std::int32_t stream = 0;
    SteadyTime sent;
    std::function<void()> on_lost;
  };
  std::deque<SentAnswer> sent_answers_;

  std::int32_t found_id_ = 0;  // the last stream that Find returned
  Stream* found_ = nullptr;

  std::uint64_t calls_ = 0;
  int probes_ = 0;  // open
  bool only_probes_ = false;
  PeerUse& peer_use_;
  MessageMemory memory_;
  std::size_t received_ = 0;        // bytes of DATA in this Receive
  std::size_t head_bytes_ = 0;      // of the latest header block until the last pause, decompressed
  std::size_t heads_received_ = 0;  // bytes of all header blocks in this Receive, decompressed
  std::size_t inflated_before_ = 0;  // by the shard's inflater, before this Receive
  std::string rest_;                 // received but not processed when the session was paused
  RateGuard resets_;    // of young calls by the peer, and of calls in which it broke the protocol
  RateGuard controls_;  // PING and SETTINGS
  int pings_ = 0;
  bool paused_ = false;
  bool settled_ = false;
  bool draining_ = false;
  bool early_ends_ = false;      // whether a response has ended before its request
  const char* flood_ = nullptr;  // the kind of flood, for GOAWAY
  Refusal flood_reason_ = Refusal::kFlood;
};

}  // namespace sluice::rpc::http2
