// HTTP/2 on one connection: nghttp2's session, its streams, and what they may hold. No I/O, no
// timers: the Connection around it brings bytes and takes bytes.
//
// Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "net/transport.h"
#include "rpc/http2/rate_guard.h"
#include "rpc/http2/stream.h"
#include "rpc/status.h"

struct nghttp2_session;

namespace sluice::rpc::http2 {

class Shard;

class Session {
 public:
  // Unfinished bytes of one connection; large messages come into a share of kSharedBytes, one after
  // the other if need be.
  static constexpr std::size_t kMaxUnfinishedBytes = 16 * 1024 * 1024;
  static constexpr std::size_t kSharedBytes = 1024 * 1024;

  // Both must outlive the session.
  Session(Shard& shard, net::Transport& transport);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // For the connection. False: the peer violates the protocol; what is left to say is in the
  // output.
  bool Receive(std::string_view bytes);
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

  // Fails requests that have not been complete since `time`.
  void FailIncomplete(SteadyTime time);
  // Since when the oldest incomplete request is; SteadyTime::max() if there is none.
  SteadyTime incomplete_since() const;

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
  bool TakeShare(Stream& stream, std::size_t bytes);
  void ReturnShare(Stream& stream);
  bool CountUnfinished(std::size_t before, std::size_t after);
  void NoteIncomplete(Stream& stream);
  void RequestCallbacks(Stream& stream);

 private:
  struct Callbacks;  // nghttp2's

  void SubmitSettings();
  Stream* Find(std::int32_t id);
  void OpenStream(std::int32_t id);
  void CloseStream(std::int32_t id);
  void Discard(Stream& stream);
  void GrantShares();
  void RunCallbacks();
  // What the peer and we have sent. False: it is a flood.
  bool OnFrame(std::uint8_t type, std::uint8_t flags, std::int32_t id);
  bool CountControl(const char* flood);
  bool CountReset(std::int32_t id);
  void OnFrameSent(std::uint8_t type, std::uint8_t flags, std::int32_t id);

  Shard& shard_;
  net::Transport& transport_;
  nghttp2_session* nghttp2_ = nullptr;

  std::vector<Stream*> streams_;
  std::vector<Stream*> with_callbacks_;
  std::vector<Stream*> waiting_for_share_;
  ListLink incomplete_;        // streams, the oldest first
  std::int32_t found_id_ = 0;  // the stream that Find has found last
  Stream* found_ = nullptr;

  std::size_t received_ = 0;  // bytes of DATA in this Receive
  std::size_t unfinished_ = 0;
  std::size_t shared_ = 0;  // of kSharedBytes, taken
  RateGuard young_resets_;
  RateGuard controls_;  // PING and SETTINGS
  int pings_ = 0;
  bool settled_ = false;
  bool draining_ = false;
  bool early_ends_ = false;      // a response has ended before its request
  const char* flood_ = nullptr;  // of what the peer sends too much
};

}  // namespace sluice::rpc::http2
