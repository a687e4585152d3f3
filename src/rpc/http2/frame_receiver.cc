#include "rpc/http2/frame_receiver.h"

namespace sluice::rpc::http2 {
namespace {

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

FrameReceiver& ReceiverOf(void* user_data) { return *static_cast<FrameReceiver*>(user_data); }

bool IsRequest(const nghttp2_frame& frame) { return frame.headers.cat == NGHTTP2_HCAT_REQUEST; }

// Since SETTINGS_NO_RFC7540_PRIORITIES is set, nghttp2 ignores PRIORITY frames, even invalid ones.
int OnBeginFrame(nghttp2_session*, const nghttp2_frame_hd* head, void*) {
  const bool fine = head->type != NGHTTP2_PRIORITY || head->stream_id != 0;
  return fine ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* receiver) {
  ReceiverOf(receiver).OnBeginHeaders(frame->hd.stream_id, IsRequest(*frame));
  return 0;
}

int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
             std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
             void* receiver) {
  return ReceiverOf(receiver).OnHeader(frame->hd.stream_id, IsRequest(*frame),
                                       Text(name, name_size), Text(value, value_size));
}

int OnData(nghttp2_session*, std::uint8_t flags, std::int32_t stream, const std::uint8_t* data,
           std::size_t size, void* receiver) {
  const bool last_frame = (flags & NGHTTP2_FLAG_END_STREAM) != 0;
  return ReceiverOf(receiver).OnData(stream, Text(data, size), last_frame);
}

int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* receiver) {
  return ReceiverOf(receiver).OnFrame(*frame);
}

int OnFrameSent(nghttp2_session*, const nghttp2_frame* frame, void* receiver) {
  ReceiverOf(receiver).OnFrameSent(*frame);
  return 0;
}

int OnStreamClose(nghttp2_session*, std::int32_t stream, std::uint32_t, void* receiver) {
  ReceiverOf(receiver).OnStreamClosed(stream);
  return 0;
}

// Shared by all sessions and never destroyed.
const nghttp2_session_callbacks* Callbacks() {
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

const nghttp2_option* Options() {
  static const nghttp2_option* const all = [] {
    // In an outage, callers whose deadlines pass reset many streams. FloodGuard limits resets of
    // new streams separately.
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

nghttp2_session* MakeSession(FrameReceiver& receiver) {
  nghttp2_session* session = nullptr;
  nghttp2_session_server_new2(&session, Callbacks(), &receiver, Options());
  return session;
}

ssize_t TakeOutputOfReceiver(nghttp2_session*, std::int32_t stream, std::uint8_t* buffer,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                             void* receiver) {
  return ReceiverOf(receiver).TakeOutput(stream, buffer, size, *flags);
}

}  // namespace sluice::rpc::http2
