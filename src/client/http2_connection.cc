#include "client/http2_connection.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <nghttp2/nghttp2.h>

#include "net/tls_transport.h"

namespace sluice {
namespace {

// Answers are processed as they arrive, so flow control does not need to limit them.
constexpr std::int32_t kWindow = 0x7fffffff;

// Names and values must outlive the connection.
nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

// Formats a grpc-timeout header: at most 8 digits and a unit.
std::string TimeoutText(Duration timeout) {
  constexpr std::int64_t kMost = 99'999'999;
  if (timeout.count() <= kMost) return fmt::format("{}u", timeout.count());
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  return fmt::format("{}m", std::min(milliseconds.count(), kMost));
}

// The name that the server's certificate must have.
std::string ServerName(const Target& target) {
  if (!target.tls_server_name.empty()) return target.tls_server_name;
  return target.address.is_unix() ? "localhost" : target.address.host;
}

std::string_view Text(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

GrpcCall* CallOf(nghttp2_session* session, std::int32_t id) {
  return static_cast<GrpcCall*>(nghttp2_session_get_stream_user_data(session, id));
}

std::string GoawayText(const nghttp2_goaway& goaway) {
  std::string text =
      fmt::format("the server sent GOAWAY ({})", nghttp2_http2_strerror(goaway.error_code));
  if (goaway.opaque_data_len > 0) {
    text += fmt::format(": {}", Text(goaway.opaque_data, goaway.opaque_data_len));
  }
  return text;
}

// nghttp2's read callback for the body of a request. The data source is the GrpcCall.
ssize_t TakeBody(nghttp2_session*, std::int32_t, std::uint8_t* buffer, std::size_t size,
                 std::uint32_t* flags, nghttp2_data_source* source, void*) {
  bool ended = false;
  auto& call = *static_cast<GrpcCall*>(source->ptr);
  const std::size_t taken = call.TakeBody(reinterpret_cast<char*>(buffer), size, ended);
  if (ended) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return taken == 0 && !ended ? ssize_t{NGHTTP2_ERR_DEFERRED} : static_cast<ssize_t>(taken);
}

int OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
             std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
             void*) {
  if (GrpcCall* call = CallOf(session, frame->hd.stream_id)) {
    call->OnHeader(Text(name, name_size), Text(value, value_size));
  }
  return 0;
}

int OnData(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
           std::size_t size, void*) {
  if (GrpcCall* call = CallOf(session, id)) call->OnData(Text(data, size));
  return 0;
}

int OnClose(nghttp2_session* session, std::int32_t id, std::uint32_t error, void*) {
  if (GrpcCall* call = CallOf(session, id)) call->OnClose(error);
  return 0;
}

}  // namespace

Result<std::unique_ptr<net::TlsClientContext>> LoadTls(const Target& target) {
  if (!target.tls) return std::unique_ptr<net::TlsClientContext>();
  return net::TlsClientContext::Load(*target.tls, "\x02h2");
}

Http2Connection::Http2Connection(net::Loop& loop, const Target& target,
                                 const net::TlsClientContext* tls, Duration timeout,
                                 std::function<void()> on_event)
    : loop_(loop),
      on_event_(std::move(on_event)),
      authority_(target.address.is_unix() ? "localhost" : target.address.ToString()),
      authorization_(target.token.empty() ? "" : "Bearer " + target.token),
      is_tls_(tls != nullptr) {
  attempt_ = loop.Connect(target.address, timeout, net::FlushStage::kCallers,
                          [this, tls, host = ServerName(target)](auto transport) {
                            if (!transport) return Lose(transport.error().message);
                            if (tls == nullptr) return StartSession(std::move(*transport));
                            StartSession(ConnectTls(loop_, std::move(*transport), *tls, host));
                          });
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::StartSession(net::TransportPtr transport) {
  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnData);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnClose);
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      callbacks, [](nghttp2_session*, const nghttp2_frame* frame, void* connection) {
        auto& self = *static_cast<Http2Connection*>(connection);
        if (frame->hd.type == NGHTTP2_SETTINGS) self.settled_ = true;
        if (frame->hd.type == NGHTTP2_GOAWAY) self.complaint_ = GoawayText(frame->goaway);
        return 0;
      });
  nghttp2_session_callbacks_set_error_callback2(
      callbacks, [](nghttp2_session*, int, const char* text, std::size_t size, void* connection) {
        static_cast<Http2Connection*>(connection)->complaint_.assign(text, size);
        return 0;
      });
  nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
  transport_ = std::move(transport);
  transport_->Start(*this);
  transport_->RequestFlush();
}

std::int32_t Http2Connection::Request(const char* path, GrpcCall& call, Duration timeout) {
  const std::string limit = TimeoutText(timeout);
  std::array<nghttp2_nv, 9> headers = {
      Header(":method", "POST"),      Header(":scheme", is_tls_ ? "https" : "http"),
      Header(":path", path),          Header(":authority", authority_),
      Header("te", "trailers"),       Header("content-type", "application/grpc"),
      Header("user-agent", "sluice"),
  };
  std::size_t count = 7;
  if (!authorization_.empty()) headers[count++] = Header("authorization", authorization_);
  if (timeout > Duration::zero()) {
    headers[count] = Header("grpc-timeout", limit);
    headers[count++].flags = NGHTTP2_NV_FLAG_NONE;  // copied
  }
  nghttp2_data_provider body{};
  body.source.ptr = &call;
  body.read_callback = TakeBody;
  RequestFlush();
  return nghttp2_submit_request(session_, nullptr, headers.data(), count, &body, &call);
}

void Http2Connection::Resume(std::int32_t stream_id) {
  nghttp2_session_resume_data(session_, stream_id);
  RequestFlush();
}

void Http2Connection::Cancel(std::int32_t stream_id) {
  nghttp2_session_set_stream_user_data(session_, stream_id, nullptr);
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_CANCEL);
  RequestFlush();
}

void Http2Connection::RequestFlush() {
  if (transport_) transport_->RequestFlush();
}

void Http2Connection::Receive(std::string_view bytes) {
  on_event_();
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const ssize_t read = nghttp2_session_mem_recv(session_, data, bytes.size());
  if (read < 0) return Lose(nghttp2_strerror(static_cast<int>(read)));
  if (nghttp2_session_want_write(session_) != 0) RequestFlush();
  LoseIfOver();
}

void Http2Connection::TakeOutput(std::string& out) {
  const std::size_t before = out.size();
  while (out.size() - before < net::Transport::kFlushBytes) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return Lose(nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) break;
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
  if (out.size() > before) return on_event_();
  LoseIfOver();
}

void Http2Connection::OnClosed(Closure closure, std::string_view cause) {
  Lose(closure == Closure::kEndOfInput ? "the server closed the connection" : cause);
}

bool Http2Connection::accepts_requests() const {
  return settled_ && loss_.empty() && nghttp2_session_check_request_allowed(session_) != 0;
}

std::uint32_t Http2Connection::max_streams() const {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void Http2Connection::Lose(std::string_view why) {
  if (!loss_.empty()) return;
  loss_ = complaint_.empty() ? why : complaint_;
  transport_.reset();
  on_event_();
}

// nghttp2 ends a session after a protocol error or a GOAWAY.
void Http2Connection::LoseIfOver() {
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    Lose("the connection has ended");
  }
}

LoneCall::LoneCall(net::Loop& loop, const Target& target, const net::TlsClientContext* tls,
                   Duration connect_timeout, const char* path, std::string_view request,
                   Duration timeout)
    : Flushable(net::FlushStage::kStore),  // flushed before the connection
      path_(path),
      timeout_(timeout),
      connection_(loop, target, tls, connect_timeout, [this, &loop] { loop.RequestFlush(*this); }) {
  request_ = GrpcFrame(request);
  request_complete_ = true;
}

void LoneCall::Flush() {
  if (!sent_ && connection_.accepts_requests()) {
    sent_ = true;
    connection_.Request(path_, *this, timeout_);
  }
  if (!connection_.loss().empty()) OnStatus({GrpcStatus::kUnavailable, connection_.loss()});
}

}  // namespace sluice
