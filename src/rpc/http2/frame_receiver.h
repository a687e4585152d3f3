// Receives what nghttp2 reports of the frames on a connection. nghttp2 parses them and enforces the
// protocol's rules.
//
// Loop thread only.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice::rpc::http2 {

// Functions with a result return 0, or an error of nghttp2: NGHTTP2_ERR_PAUSE to continue in a
// later call of nghttp2_session_mem_recv, NGHTTP2_ERR_CALLBACK_FAILURE to end the connection.
class FrameReceiver {
 public:
  virtual ~FrameReceiver() = default;

  // A header block begins: that of a request, or of its trailers.
  virtual void OnBeginHeaders(std::int32_t stream, bool is_request) = 0;
  // A field of that block.
  virtual int OnHeader(std::int32_t stream, bool is_request, std::string_view name,
                       std::string_view value) = 0;
  virtual int OnData(std::int32_t stream, std::string_view bytes, bool last_frame) = 0;
  // A frame is complete.
  virtual int OnFrame(const nghttp2_frame& frame) = 0;
  virtual void OnFrameSent(const nghttp2_frame& frame) = 0;
  virtual void OnStreamClosed(std::int32_t stream) = 0;

  // As nghttp2_data_source_read_callback.
  virtual ssize_t TakeOutput(std::int32_t stream, std::uint8_t* buffer, std::size_t size,
                             std::uint32_t& flags) = 0;
};

// A server's session that reports to `receiver`, which must outlive it. The caller deletes it.
nghttp2_session* MakeSession(FrameReceiver& receiver);

// The read callback of that session's responses: calls TakeOutput.
ssize_t TakeOutputOfReceiver(nghttp2_session*, std::int32_t stream, std::uint8_t* buffer,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source*,
                             void* receiver);

}  // namespace sluice::rpc::http2
