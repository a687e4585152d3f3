// The frames that the server sends on one connection, including WINDOW_UPDATE.
// nghttp2 queues the frames until the transport's next flush.
//
// Loop thread only.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/transport.h"
#include "rpc/status.h"

namespace sluice::rpc::http2 {

// Encodes `message` for grpc-message: '%' and all bytes except printable ASCII become %XX.
std::string PercentEncode(std::string_view message);

class FrameWriter {
 public:
  // `read`: takes the bytes of responses from streams.
  FrameWriter(net::Transport& transport, nghttp2_session* session,
              nghttp2_data_source_read_callback read)
      : transport_(transport), session_(session), read_(read) {}

  void SubmitSettings();

  // To send a response, call SubmitResponse (headers and messages) and then SubmitTrailers. To send
  // one HEADERS frame only, call SubmitTrailersOnly or SubmitHttpError.
  void SubmitResponse(std::int32_t stream);
  void SubmitTrailers(std::int32_t stream, const Status& status);
  void SubmitTrailersOnly(std::int32_t stream, const Status& status);
  void SubmitHttpError(std::int32_t stream, std::string_view http_status);
  // The stream has output again, after it had none.
  void ResumeOutput(std::int32_t stream);

  void ReturnWindow(std::int32_t stream, std::size_t bytes);

  // nghttp2 sends the reset before all queued DATA.
  void SubmitReset(std::int32_t stream, std::uint32_t error);
  void SubmitPing();
  // Sends a first GOAWAY, which announces the final one. Until the final one, new calls are still
  // accepted.
  void SubmitShutdownNotice();
  void SubmitGoaway(std::uint32_t error, std::string_view text);

 private:
  net::Transport& transport_;
  nghttp2_session* const session_;
  const nghttp2_data_source_read_callback read_;
};

}  // namespace sluice::rpc::http2
