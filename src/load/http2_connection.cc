#include "load/http2_connection.h"

#include <array>
#include <utility>

#include <nghttp2/nghttp2.h>

#include "load/http2_callbacks.h"
#include "net/tls_transport.h"

namespace sluice::load {
namespace {

// Answers are read at once, so the flow-control window must never limit them.
constexpr std::int32_t kWindow = 0x7fffffff;

// Names and values must outlive the connection.
nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

// The name that the server's certificate must have.
std::string ServerName(const Plan& plan) {
  if (!plan.tls_server_name.empty()) return plan.tls_server_name;
  return plan.address.is_unix() ? "localhost" : plan.address.host;
}

}  // namespace

Http2Connection::Http2Connection(net::Loop& loop, const Plan& plan,
                                 const net::TlsClientContext* tls, std::function<void()> on_event)
    : loop_(loop),
      on_event_(std::move(on_event)),
      authority_(plan.address.is_unix() ? "localhost" : plan.address.ToString()),
      authorization_(plan.token.empty() ? "" : "Bearer " + plan.token),
      is_tls_(tls != nullptr) {
  attempt_ = loop.Connect(plan.address, plan.timeout, net::FlushStage::kCallers,
                          [this, tls, host = ServerName(plan)](auto transport) {
                            if (!transport) return Lose(transport.error().message);
                            if (tls == nullptr) return StartSession(std::move(*transport));
                            StartSession(ConnectTls(loop_, std::move(*transport), *tls, host));
                          });
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

void Http2Connection::StartSession(net::TransportPtr transport) {
  nghttp2_session_callbacks* const callbacks = Callbacks::Make();
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

std::int32_t Http2Connection::Request(const char* path, Http2Stream& stream) {
  const std::array headers = {
      Header(":method", "POST"),
      Header(":scheme", is_tls_ ? "https" : "http"),
      Header(":path", path),
      Header(":authority", authority_),
      Header("te", "trailers"),
      Header("content-type", "application/grpc"),
      Header("user-agent", "sluice-bench"),
      Header("authorization", authorization_),
  };
  nghttp2_data_provider body{};
  body.source.ptr = &stream;
  body.read_callback = Callbacks::TakeBody;
  RequestFlush();
  return nghttp2_submit_request(session_, nullptr, headers.data(),
                                headers.size() - (authorization_.empty() ? 1 : 0), &body, &stream);
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

}  // namespace sluice::load
