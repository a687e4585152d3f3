#include "rpc/http2/session_callbacks.h"

namespace sluice::rpc::http2 {
namespace {

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

Session& SessionOf(void* user_data) { return *static_cast<Session*>(user_data); }

nghttp2_nv MakeField(std::string_view name, std::string_view value, int flags) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  };
  return {.name = bytes(name),
          .value = bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = static_cast<std::uint8_t>(flags)};
}

}  // namespace

nghttp2_nv Field(std::string_view name, std::string_view value) {
  return MakeField(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}

nghttp2_nv CopiedField(std::string_view name, std::string_view value) {
  return MakeField(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

const nghttp2_session_callbacks* Session::Callbacks::All() {
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

const nghttp2_option* Session::Callbacks::Options() {
  static const nghttp2_option* const all = [] {
    // In an outage, callers whose deadlines pass reset many streams. Session limits resets of new
    // streams separately.
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

// nghttp2 ignores all of PRIORITY, since SETTINGS_NO_RFC7540_PRIORITIES is set.
int Session::Callbacks::OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void*) {
  const bool fine = head->type != NGHTTP2_PRIORITY || head->stream_id != 0;
  return fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Session::Callbacks::OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame,
                                       void* session) {
  SessionOf(session).head_bytes_ = 0;
  if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
    SessionOf(session).OpenStream(frame->hd.stream_id);
  }
  return 0;
}

// Ignores trailers of a request.
int Session::Callbacks::OnHeader(nghttp2_session*, const nghttp2_frame* frame,
                                 const std::uint8_t* name, std::size_t name_size,
                                 const std::uint8_t* value, std::size_t value_size, std::uint8_t,
                                 void* session) {
  Session& owner = SessionOf(session);
  Stream* const stream =
      frame->headers.cat == NGHTTP2_HCAT_REQUEST ? owner.Find(frame->hd.stream_id) : nullptr;
  if (stream != nullptr) stream->OnHeader(Text(name, name_size), Text(value, value_size));
  if (owner.CountField(name_size + value_size)) return 0;
  return owner.PauseInHeaders() ? NGHTTP2_ERR_PAUSE : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Session::Callbacks::OnData(nghttp2_session*, std::uint8_t flags, std::int32_t id,
                               const std::uint8_t* data, std::size_t size, void* session) {
  const bool last_frame = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
  const bool more = SessionOf(session).OnData(id, Text(data, size), last_frame);
  return more ? 0 : NGHTTP2_ERR_PAUSE;
}

int Session::Callbacks::OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* session) {
  const bool fine =
      SessionOf(session).OnFrame(frame->hd.type, frame->hd.flags, frame->hd.stream_id);
  return fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Session::Callbacks::OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* session) {
  if (frame->hd.type == NGHTTP2_RST_STREAM) {
    SessionOf(session).OnResetSent(frame->rst_stream.error_code);
  }
  SessionOf(session).OnFrameSent(frame->hd.type, frame->hd.flags, frame->hd.stream_id);
  return 0;
}

int Session::Callbacks::OnStreamClose(nghttp2_session*, std::int32_t id, std::uint32_t,
                                      void* session) {
  SessionOf(session).CloseStream(id);
  return 0;
}

ssize_t Session::Callbacks::TakeOutput(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                                       std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                                       void* session) {
  Stream* const stream = SessionOf(session).Find(id);
  if (stream == nullptr) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  bool last = false;
  const std::size_t taken = stream->TakeOutput(buffer, size, last);
  if (taken == Stream::kWait) return NGHTTP2_ERR_DEFERRED;
  if (last) *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  return static_cast<ssize_t>(taken);
}

}  // namespace sluice::rpc::http2
