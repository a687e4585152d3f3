// HTTP/2 on one connection: nghttp2's session and its streams. Does no I/O and has no timers: its
// Connection passes bytes in and out.
//
// Loop thread only.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "net/transport.h"
#include "rpc/http2/call_admission.h"
#include "rpc/http2/flood_guard.h"
#include "rpc/http2/shard.h"
#include "rpc/http2/stream.h"
#include "rpc/http2/stream_context.h"

namespace sluice::rpc::http2 {

class Session {
 public:
  // Both must outlive the session.
  Session(Shard& shard, net::Transport& transport);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns false if the peer has violated the protocol or flooded the session; the output then
  // ends with GOAWAY. If `bytes` take too much work for one iteration, the session is paused() and
  // keeps the rest for Resume in a later iteration. REQUIRES: not paused.
  bool Receive(std::string_view bytes);
  bool Resume() { return Receive(std::exchange(rest_, {})); }
  bool paused() const { return paused_; }
  void TakeOutput(std::string& out);
  // True if there is nothing more to receive and nothing more to send.
  bool ended() const;

  // Closes all streams as if the peer had reset them.
  void CloseStreams();
  // The connection has ended: output that the kernel has not accepted is lost.
  void OnEnd();

  // BeginDrain sends a first GOAWAY, which announces the shutdown, and a PING. After the ack of the
  // PING, the peer starts no new calls. EndDrain then sends the final GOAWAY.
  void BeginDrain();
  void EndDrain();

  void SendPing();

  // The start of the longest wait for the rest of a request. SteadyTime::max() if none waits.
  SteadyTime incomplete_since() const { return context_.incomplete_requests.oldest(); }
  // The start of the longest wait of response bytes. SteadyTime::max() if none wait.
  SteadyTime unsent_since() const { return context_.unsent_responses.oldest(); }
  // Ends the incomplete requests whose wait began at `time` or before. Returns false if this has
  // ended the session.
  bool EndIncomplete(SteadyTime time);
  // Resets the calls whose response bytes have waited since `time` or before.
  void EndUnsent(SteadyTime time);

  CallAdmission& admission() { return admission_; }
  const CallAdmission& admission() const { return admission_; }
  bool has_streams() const { return !streams_.empty(); }
  // Whether any call is open, apart from probes.
  bool has_calls() const {
    return streams_.size() > static_cast<std::size_t>(admission_.open_probes());
  }
  bool settled() const { return settled_; }   // the peer has sent its SETTINGS
  bool pinged() const { return pings_ > 0; }  // a PING waits for its ack

 private:
  // A header block larger than this ends the connection. If a block is smaller, but larger than
  // RequestHead::kMaxBytes, only its call fails. Decompressing a large block takes time, because
  // one byte can become a field of 4 KB.
  static constexpr std::size_t kMaxHeaderBlock = 16 * RequestHead::kMaxBytes;
  // After this many decompressed bytes of headers, the session pauses so that other connections
  // can run: 16 KiB of input can decompress to a thousand times as much.
  static constexpr std::size_t kHeaderBytesPerIteration = 64 * 1024;

  const std::string& network() const { return context_.transport.peer().network; }
  SteadyTime now() const { return context_.now(); }
  Stream* Find(std::int32_t id);
  void OpenStream(std::int32_t id);
  void Discard(Stream& stream);
  void Reset(Stream& stream, std::uint32_t error);
  // Sends GOAWAY with an error and closes all streams.
  void Abort(std::uint32_t error, std::string_view text);
  // The request's headers are complete.
  void OnHeadersEnd(Stream& stream);
  void BoundOutput();
  void RunCallbacks();
  // Returns false if the peer floods the session.
  bool OnControl(const nghttp2_frame_hd& head);
  bool OnReset(std::int32_t id);

  // nghttp2 parses frames, enforces the protocol's rules, and reports frames through callbacks. If
  // `is_request`, a header block is the head of a request; otherwise it is a request's trailers.
  struct Callbacks;
  nghttp2_session* MakeNghttp2();
  void OnBeginHeaders(std::int32_t id, bool is_request);
  int OnHeader(std::int32_t id, bool is_request, std::string_view name, std::string_view value);
  int OnData(std::int32_t id, std::string_view bytes, bool last_frame);
  int OnFrame(const nghttp2_frame& frame);
  void OnFrameSent(const nghttp2_frame& frame);
  static ssize_t TakeOutputOf(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                              std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                              void* session);

  Shard& shard_;
  PeerUse& peer_use_;
  nghttp2_session* const nghttp2_;
  StreamContext context_;
  CallAdmission admission_;
  FloodGuard flood_;

  std::vector<Stream*> streams_;
  std::int32_t found_id_ = 0;  // the last stream that Find returned
  Stream* found_ = nullptr;

  std::size_t received_ = 0;         // bytes of DATA in this Receive
  std::size_t head_bytes_ = 0;       // decompressed bytes of the latest header block
  std::size_t heads_received_ = 0;   // decompressed bytes of all header blocks in this Receive
  std::size_t inflated_before_ = 0;  // the inflater's total() before this Receive
  std::string rest_;                 // received but not processed when the session was paused
  int pings_ = 0;
  bool paused_ = false;
  bool settled_ = false;
};

}  // namespace sluice::rpc::http2
