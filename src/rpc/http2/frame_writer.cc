#include "rpc/http2/frame_writer.h"

#include <array>

#include <fmt/format.h>

#include "rpc/http2/request_head.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::uint32_t kMaxStreams = 1'024;
constexpr std::int32_t kConnectionWindow = 1024 * 1024;

std::uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

nghttp2_nv MakeField(std::string_view name, std::string_view value, int flags) {
  return {.name = Bytes(name),
          .value = Bytes(value),
          .namelen = name.size(),
          .valuelen = value.size(),
          .flags = static_cast<std::uint8_t>(flags)};
}

// A header field to send. Field copies nothing, so its texts must be literals; CopiedField copies
// the value.
nghttp2_nv Field(std::string_view name, std::string_view value) {
  return MakeField(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
}
nghttp2_nv CopiedField(std::string_view name, std::string_view value) {
  return MakeField(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME);
}

// The first header fields of a response.
const std::array<nghttp2_nv, 3>& ResponseFields() {
  static const std::array<nghttp2_nv, 3> fields = {
      Field(":status", "200"), Field("content-type", "application/grpc"),
      Field("grpc-accept-encoding", "identity, deflate, gzip")};
  return fields;
}

std::string NumberOf(const Status& status) { return fmt::to_string(static_cast<int>(status.code)); }

}  // namespace

std::string PercentEncode(std::string_view message) {
  std::string encoded;
  for (const char c : message) {
    if (c >= ' ' && c <= '~' && c != '%') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

void FrameWriter::SubmitSettings() {
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMaxStreams},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, RequestHead::kMaxBytes},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
}

void FrameWriter::SubmitResponse(std::int32_t stream) {
  const nghttp2_data_provider provider{.source = {.ptr = nullptr}, .read_callback = read_};
  const auto& fields = ResponseFields();
  nghttp2_submit_response(session_, stream, fields.data(), fields.size(), &provider);
  transport_.RequestFlush();
}

void FrameWriter::SubmitTrailers(std::int32_t stream, const Status& status) {
  transport_.RequestFlush();
  static const nghttp2_nv kOk = Field("grpc-status", "0");
  if (status.ok()) {
    nghttp2_submit_trailer(session_, stream, &kOk, 1);
    return;
  }
  const std::string code = NumberOf(status);
  const std::string message = PercentEncode(status.message);
  const std::array<nghttp2_nv, 2> fields = {CopiedField("grpc-status", code),
                                            CopiedField("grpc-message", message)};
  nghttp2_submit_trailer(session_, stream, fields.data(), message.empty() ? 1 : 2);
}

void FrameWriter::SubmitTrailersOnly(std::int32_t stream, const Status& status) {
  const std::string code = NumberOf(status);
  const std::string message = PercentEncode(status.message);
  const auto& start = ResponseFields();
  const std::array<nghttp2_nv, 5> fields = {start[0], start[1], start[2],
                                            CopiedField("grpc-status", code),
                                            CopiedField("grpc-message", message)};
  nghttp2_submit_response(session_, stream, fields.data(), message.empty() ? 4 : 5, nullptr);
  transport_.RequestFlush();
}

void FrameWriter::SubmitHttpError(std::int32_t stream, std::string_view http_status) {
  const nghttp2_nv field = Field(":status", http_status);
  nghttp2_submit_response(session_, stream, &field, 1, nullptr);
  transport_.RequestFlush();
}

void FrameWriter::ResumeOutput(std::int32_t stream) {
  nghttp2_session_resume_data(session_, stream);
  transport_.RequestFlush();
}

void FrameWriter::ReturnWindow(std::int32_t stream, std::size_t bytes) {
  if (bytes == 0) return;
  nghttp2_session_consume_stream(session_, stream, bytes);
  transport_.RequestFlush();
}

void FrameWriter::SubmitReset(std::int32_t stream, std::uint32_t error) {
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error);
  transport_.RequestFlush();
}

void FrameWriter::SubmitPing() {
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  transport_.RequestFlush();
}

void FrameWriter::SubmitShutdownNotice() { nghttp2_submit_shutdown_notice(session_); }

void FrameWriter::SubmitGoaway(std::uint32_t error, std::string_view text) {
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), error, Bytes(text),
                        text.size());
  transport_.RequestFlush();
}

}  // namespace sluice::rpc::http2
