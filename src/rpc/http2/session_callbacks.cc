#include "rpc/http2/session.h"

namespace sluice::rpc::http2 {
namespace {

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

bool IsRequest(const nghttp2_frame& frame) { return frame.headers.cat == NGHTTP2_HCAT_REQUEST; }

const nghttp2_option* Options() {
  static const nghttp2_option* const all = [] {
    // High, because in an outage many deadlines pass, and the callers then reset their streams.
    // FloodGuard limits resets of new streams separately.
    constexpr std::uint64_t kResetBurst = 10'000;
    constexpr std::uint64_t kResetsPerSecond = 5'000;
    nghttp2_option* options = nullptr;
    nghttp2_option_new(&options);
    nghttp2_option_set_no_auto_window_update(options, 1);
    nghttp2_option_set_no_closed_streams(options, 1);
    nghttp2_option_set_max_continuations(options, 8);
    nghttp2_option_set_stream_reset_rate_limit(options, kResetBurst, kResetsPerSecond);
    return options;
  }();
  return all;
}

}  // namespace

// A callback returns 0 or an error of nghttp2. After NGHTTP2_ERR_PAUSE, a later call of
// nghttp2_session_mem_recv continues. NGHTTP2_ERR_CALLBACK_FAILURE ends the connection.
struct Session::Callbacks {
  static Session& Of(void* session) { return *static_cast<Session*>(session); }

  // Since SETTINGS_NO_RFC7540_PRIORITIES is set, nghttp2 ignores even invalid PRIORITY frames. So
  // PRIORITY frames of stream 0, which are invalid, are rejected here.
  static int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void*) {
    const bool fine = head->type != NGHTTP2_PRIORITY || head->stream_id != 0;
    return fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* session) {
    Of(session).OnBeginHeaders(frame->hd.stream_id, IsRequest(*frame));
    return 0;
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t, void* session) {
    return Of(session).OnHeader(frame->hd.stream_id, IsRequest(*frame), Text(name, name_size),
                                Text(value, value_size));
  }

  static int OnData(nghttp2_session*, std::uint8_t flags, std::int32_t stream,
                    const std::uint8_t* data, std::size_t size, void* session) {
    const bool last_frame = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
    return Of(session).OnData(stream, Text(data, size), last_frame);
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* session) {
    return Of(session).OnFrame(*frame);
  }

  static int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* session) {
    Of(session).OnFrameSent(*frame);
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, std::int32_t stream, std::uint32_t, void* session) {
    if (Stream* const closed = Of(session).Find(stream)) Of(session).Discard(*closed);
    return 0;
  }

  // Shared by all sessions and never destroyed.
  static const nghttp2_session_callbacks* All() {
    static const nghttp2_session_callbacks* const all = [] {
      nghttp2_session_callbacks* callbacks = nullptr;
      nghttp2_session_callbacks_new(&callbacks);
      nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, OnBeginFrame);
      nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
      nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
      nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
      nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
      nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, OnFrameSent);
      nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
      return callbacks;
    }();
    return all;
  }
};

nghttp2_session* Session::MakeNghttp2() {
  nghttp2_session* session = nullptr;
  nghttp2_session_server_new2(&session, Callbacks::All(), this, Options());
  return session;
}

void Session::OnFrameSent(const nghttp2_frame& frame) {
  const nghttp2_frame_hd& head = frame.hd;
  // If a peer breaks the protocol in a call, nghttp2 resets the call. Such a reset counts like a
  // reset by the peer. The server itself resets calls only with the codes below.
  if (head.type == NGHTTP2_RST_STREAM) {
    const std::uint32_t error = frame.rst_stream.error_code;
    const bool chosen =
        error == NGHTTP2_NO_ERROR || error == NGHTTP2_CANCEL || error == NGHTTP2_REFUSED_STREAM;
    if (!chosen) flood_.CountReset(now());
  }
  if (head.type != NGHTTP2_HEADERS && head.type != NGHTTP2_DATA) return;
  flood_.OnResponse();
  if (!context_.early_ends || (head.flags & NGHTTP2_FLAG_END_STREAM) == 0) return;
  const Stream* const stream = Find(head.stream_id);
  if (stream == nullptr || stream->request_ended()) return;
  // The response is complete, so the rest of the request is not needed.
  context_.frames.SubmitReset(head.stream_id, NGHTTP2_NO_ERROR);
}

ssize_t Session::TakeOutputOf(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                              std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                              void* session) {
  Stream* const stream = static_cast<Session*>(session)->Find(id);
  if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  bool last = false;
  const std::size_t taken = stream->TakeOutput(buffer, size, last);
  if (taken == Stream::kWait) return NGHTTP2_ERR_DEFERRED;
  if (last) *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  return static_cast<ssize_t>(taken);
}

}  // namespace sluice::rpc::http2
