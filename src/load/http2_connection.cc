#include "load/http2_connection.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include "load/http2_callbacks.h"

namespace sluice::load {
namespace {

constexpr std::size_t kReadSize = 256 * 1024;
// More than that unsent, and what follows waits in nghttp2, which heeds windows.
constexpr std::size_t kWriteSize = 256 * 1024;
// Answers are read as they come: no window shall ever hold them back.
constexpr std::int32_t kWindow = 0x7fffffff;

// Names and values live for ever, or as long as the connection.
nghttp2_nv Header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return const_cast<std::uint8_t*>(reinterpret_cast<const std::uint8_t*>(text.data()));
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

}  // namespace

Result<std::unique_ptr<Http2Connection>> Http2Connection::Open(const Address& address,
                                                               SteadyTime deadline) {
  auto socket = Socket::Connect(address, deadline);
  if (!socket) return socket.error();
  std::unique_ptr<Http2Connection> connection(new Http2Connection(std::move(*socket)));
  connection->authority_ = address.is_unix() ? "localhost" : address.ToString();
  if (auto settled = connection->AwaitSettings(deadline); !settled) return settled.error();
  return connection;
}

Http2Connection::Http2Connection(Socket socket)
    : socket_(std::move(socket)), in_(std::make_unique<char[]>(kReadSize)) {
  nghttp2_session_callbacks* const callbacks = Callbacks::Make();
  nghttp2_session_client_new(&session_, callbacks, this);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
}

Http2Connection::~Http2Connection() { nghttp2_session_del(session_); }

Result<void> Http2Connection::AwaitSettings(SteadyTime deadline) {
  for (Flush(); !settled_ && !lost(); Flush()) {
    if (!socket_.WaitReadable(deadline)) {
      return Error{ErrorCode::kUnavailable, "who is there does not speak HTTP/2: no answer"};
    }
    Receive();
  }
  if (lost()) return Error{ErrorCode::kUnavailable, loss_};
  return {};
}

std::int32_t Http2Connection::Request(const char* path, Http2Stream& stream) {
  const nghttp2_nv headers[] = {
      Header(":method", "POST"),
      Header(":scheme", "http"),
      Header(":path", path),
      Header(":authority", authority_),
      Header("te", "trailers"),
      Header("content-type", "application/grpc"),
      Header("user-agent", "sluice-bench"),
  };
  nghttp2_data_provider body{};
  body.source.ptr = &stream;
  body.read_callback = Callbacks::TakeBody;
  return nghttp2_submit_request(session_, nullptr, headers, std::size(headers), &body, &stream);
}

void Http2Connection::Resume(std::int32_t stream_id) {
  nghttp2_session_resume_data(session_, stream_id);
}

void Http2Connection::Receive() {
  if (lost()) return;
  const ssize_t size = recv(fd(), in_.get(), kReadSize, 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size < 0) return Lose(std::strerror(errno));
  if (size == 0) return Lose("the server closed the connection");
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(in_.get());
  const ssize_t read = nghttp2_session_mem_recv(session_, bytes, static_cast<std::size_t>(size));
  if (read < 0) return Lose(nghttp2_strerror(static_cast<int>(read)));
  LoseIfOver();
}

void Http2Connection::Flush() {
  while (!lost()) {
    Gather();
    if (out_.empty()) break;
    Write();
    if (wants_write()) return;
  }
  if (!lost()) LoseIfOver();
}

// Fills `out_` with the frames that are due.
void Http2Connection::Gather() {
  while (out_.size() < kWriteSize) {
    const std::uint8_t* bytes = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &bytes);
    if (size < 0) return Lose(nghttp2_strerror(static_cast<int>(size)));
    if (size == 0) return;
    out_.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
  }
}

// Sends `out_` and clears it once all of it is sent.
void Http2Connection::Write() {
  const ssize_t size = send(fd(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
  if (size < 0) {
    if (errno != EAGAIN && errno != EINTR) Lose(std::strerror(errno));
    return;
  }
  sent_ += static_cast<std::size_t>(size);
  if (sent_ < out_.size()) return;
  out_.clear();
  sent_ = 0;
}

bool Http2Connection::accepts_requests() const {
  return !lost() && nghttp2_session_check_request_allowed(session_) != 0;
}

std::uint32_t Http2Connection::max_streams() const {
  return nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

void Http2Connection::Lose(std::string why) {
  loss_ = complaint_.empty() ? std::move(why) : complaint_;
  socket_.Close();
}

// nghttp2 ends a session by itself, after a breach of the protocol or a GOAWAY.
void Http2Connection::LoseIfOver() {
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    Lose("the connection is over");
  }
}

}  // namespace sluice::load
