#include "load/http2_callbacks.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace sluice::load {
namespace {

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

Http2Stream* StreamOf(nghttp2_session* session, std::int32_t id) {
  return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
}

std::string GoawayText(const nghttp2_goaway& goaway) {
  std::string text =
      fmt::format("the server sent GOAWAY ({})", nghttp2_http2_strerror(goaway.error_code));
  if (goaway.opaque_data_len > 0) {
    text += fmt::format(": {}", Text(goaway.opaque_data, goaway.opaque_data_len));
  }
  return text;
}

}  // namespace

nghttp2_session_callbacks* Http2Connection::Callbacks::Make() {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
  nghttp2_session_callbacks_set_error_callback2(callbacks, OnError);
  return callbacks;
}

ssize_t Http2Connection::Callbacks::TakeBody(nghttp2_session*, std::int32_t, std::uint8_t* buffer,
                                             std::size_t size, std::uint32_t* flags,
                                             nghttp2_data_source* source, void*) {
  bool ended = false;
  auto& stream = *static_cast<Http2Stream*>(source->ptr);
  const std::size_t taken = stream.TakeBody(reinterpret_cast<char*>(buffer), size, ended);
  if (ended) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return taken == 0 && !ended ? ssize_t{NGHTTP2_ERR_DEFERRED} : static_cast<ssize_t>(taken);
}

int Http2Connection::Callbacks::OnHeader(nghttp2_session* session, const nghttp2_frame* frame,
                                         const std::uint8_t* name, std::size_t name_size,
                                         const std::uint8_t* value, std::size_t value_size,
                                         std::uint8_t, void*) {
  if (Http2Stream* stream = StreamOf(session, frame->hd.stream_id)) {
    stream->OnHeader(Text(name, name_size), Text(value, value_size));
  }
  return 0;
}

int Http2Connection::Callbacks::OnData(nghttp2_session* session, std::uint8_t, std::int32_t id,
                                       const std::uint8_t* data, std::size_t size, void*) {
  if (Http2Stream* stream = StreamOf(session, id)) stream->OnData(Text(data, size));
  return 0;
}

int Http2Connection::Callbacks::OnClose(nghttp2_session* session, std::int32_t id,
                                        std::uint32_t error, void*) {
  if (Http2Stream* stream = StreamOf(session, id)) stream->OnClose(error);
  return 0;
}

int Http2Connection::Callbacks::OnFrame(nghttp2_session*, const nghttp2_frame* frame,
                                        void* connection) {
  auto& self = *static_cast<Http2Connection*>(connection);
  if (frame->hd.type == NGHTTP2_SETTINGS) self.settled_ = true;
  if (frame->hd.type == NGHTTP2_GOAWAY) self.complaint_ = GoawayText(frame->goaway);
  return 0;
}

int Http2Connection::Callbacks::OnError(nghttp2_session*, int, const char* text, std::size_t size,
                                        void* connection) {
  static_cast<Http2Connection*>(connection)->complaint_.assign(text, size);
  return 0;
}

}  // namespace sluice::load
