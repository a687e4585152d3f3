#include "tests/rpc/raw_connection.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/rpc/raw_request.h"
#include "tests/support/require.h"

namespace sluice::test {
namespace {

constexpr std::chrono::seconds kReplyTimeout(5);
constexpr std::uint32_t kProbeStream = 0x7FFFFFF1;
constexpr std::size_t kLongMessage = 40;

std::uint32_t Number(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

std::string Printable(std::string_view bytes) {
  std::string text(bytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  return text;
}

// The messages of a response as text: short messages in quotes, only the sizes of long messages,
// and the number of bytes after the last whole message.
std::string MessagesText(std::string_view data) {
  std::string text;
  while (data.size() >= 5) {
    const std::size_t size = Number(data.substr(1, 4));
    if (data.size() < 5 + size) break;
    text += size > kLongMessage ? fmt::format(" <{} bytes>", size)
                                : fmt::format(" '{}'", Printable(data.substr(5, size)));
    data.remove_prefix(5 + size);
  }
  if (!data.empty()) text += fmt::format(" +{} bytes", data.size());
  return text;
}

}  // namespace

std::string ErrorName(std::uint32_t code) { return nghttp2_http2_strerror(code); }

std::string RawStream::Field(std::string_view name) const {
  for (auto block = headers.rbegin(); block != headers.rend(); ++block) {
    for (const auto& [key, value] : *block) {
      if (key == name) return value;
    }
  }
  return "";
}

std::string RawStream::Text() const {
  std::string text = Field(":status");
  if (const std::string status = Field("grpc-status"); !status.empty()) text += " " + status;
  if (headers.size() == 1 && ended) text += " only";
  text += MessagesText(data);
  if (reset) text += " reset " + ErrorName(*reset);
  if (left) text += " left";
  if (!over()) text += " open";
  return text.starts_with(' ') ? text.substr(1) : text;
}

RawConnection::RawConnection(const Address& address) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Require(::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "cannot connect");
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  Require(nghttp2_hd_inflate_new(&inflater_) == 0, "nghttp2");
}

RawConnection::~RawConnection() {
  nghttp2_hd_inflate_del(inflater_);
  ::close(socket_);
}

void RawConnection::SendPreface() {
  constexpr std::uint32_t kWindow = 1 << 30;
  Send(kHttp2Preface + Setting(4, kWindow) + WindowUpdate(kWindow, 0));
}

// Stores received bytes without handling them, so that no ack is sent in the middle of `bytes`. If
// the server closes the connection, the rest of `bytes` is not sent.
void RawConnection::Send(std::string_view bytes) {
  NoteResets(bytes);
  while (!bytes.empty() && !closed_) {
    pollfd ready{.fd = socket_, .events = POLLIN | POLLOUT, .revents = 0};
    Require(::poll(&ready, 1, 5000) > 0, "the server does not read");
    if ((ready.revents & POLLOUT) != 0) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) != 0) Receive();
  }
}

// Notes the streams of the RST_STREAM frames in `sent`. From now on, received frames of these
// streams are ignored.
void RawConnection::NoteResets(std::string_view sent) {
  std::string bytes(sent);
  if (bytes.starts_with(kHttp2Preface)) bytes.erase(0, std::string_view(kHttp2Preface).size());
  while (const auto frame = Http2Frame::Take(bytes)) {
    if (frame->type == Http2Frame::kResetStream) streams_[frame->stream].left = true;
  }
}

void RawConnection::SendSlowly(std::string_view bytes) {
  for (const char& byte : bytes) Send({&byte, 1});
}

void RawConnection::Await(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kReplyTimeout;
  NoteAll();
  while (!condition() && !closed_) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    TakeIn(std::chrono::ceil<std::chrono::milliseconds>(left));
  }
}

void RawConnection::AwaitEnd(std::uint32_t stream) {
  Await([&] { return streams_[stream].over(); });
}

void RawConnection::AwaitHeaders(std::uint32_t stream) {
  Await([&] { return !streams_[stream].headers.empty(); });
}

void RawConnection::AwaitData(std::uint32_t stream, std::size_t bytes) {
  Await([&] { return streams_[stream].data.size() >= bytes; });
}

void RawConnection::AwaitFrames(char type, int count) {
  Await([&] { return frames_[type] >= count; });
}

void RawConnection::AwaitPong() {
  const int before = pongs_;
  Send(Ping("awaiting"));
  Await([&] { return pongs_ > before || goaway_.has_value(); });
}

void RawConnection::Receive() {
  std::array<char, 16 * 1024> buffer;
  const auto size = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size <= 0) {
    closed_ = true;
  } else {
    received_.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

void RawConnection::TakeIn(std::chrono::milliseconds patience) {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&ready, 1, static_cast<int>(patience.count())) > 0) Receive();
  NoteAll();
}

void RawConnection::NoteAll() {
  while (auto frame = Http2Frame::Take(received_)) Note(std::move(*frame));
}

void RawConnection::Note(Http2Frame frame) {
  ++frames_[frame.type];
  RawStream& stream = streams_[frame.stream];
  const bool ack = (frame.flags & Http2Frame::kAck) != 0;
  switch (frame.type) {
    case Http2Frame::kHeaders:
    case Http2Frame::kContinuation:
      return NoteHeaders(frame);
    case Http2Frame::kData:
      if (stream.over()) return;
      stream.data += frame.payload;
      stream.ended = (frame.flags & kEnd) != 0;
      return;
    case Http2Frame::kResetStream:
      if (!stream.left && !stream.reset) stream.reset = Number(frame.payload);
      return;
    case Http2Frame::kSettings:
      if (!ack) Send(FrameOf(Http2Frame::kSettings, "", Http2Frame::kAck));
      return;
    case Http2Frame::kPing:
      if (ack) {
        ++pongs_;
      } else {
        Send(FrameOf(Http2Frame::kPing, frame.payload, Http2Frame::kAck));
      }
      return;
    case Http2Frame::kGoaway:
      goaway_ = Number(frame.payload.substr(4, 4));
      return;
    default:
      return;
  }
}

void RawConnection::NoteHeaders(const Http2Frame& frame) {
  if (frame.type == Http2Frame::kHeaders) {
    block_.clear();
    block_flags_ = frame.flags;
  }
  block_ += frame.payload;
  if ((frame.flags & Http2Frame::kEndHeaders) == 0) return;
  RawStream& stream = streams_[frame.stream];
  auto fields = Inflate(block_);
  if (stream.over()) return;
  stream.headers.push_back(std::move(fields));
  stream.ended = (block_flags_ & kEnd) != 0;
}

RawStream::Fields RawConnection::Inflate(const std::string& block) {
  RawStream::Fields fields;
  const auto* at = reinterpret_cast<const std::uint8_t*>(block.data());
  std::size_t left = block.size();
  for (;;) {
    nghttp2_nv field;
    int flags = 0;
    const auto used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, at, left, 1);
    Require(used >= 0, "the server's header fields cannot be read");
    at += used;
    left -= static_cast<std::size_t>(used);
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      fields.emplace_back(std::string(reinterpret_cast<char*>(field.name), field.namelen),
                          std::string(reinterpret_cast<char*>(field.value), field.valuelen));
    }
    if ((flags & NGHTTP2_HD_INFLATE_FINAL) != 0) break;
  }
  nghttp2_hd_inflate_end_headers(inflater_);
  return fields;
}

std::string RawConnection::Health() {
  AwaitPong();
  if (!closed_ && !goaway_) {
    Send(UnaryRequest("/test.Unary/Echo", "probe", kProbeStream));
    AwaitEnd(kProbeStream);
    if (streams_[kProbeStream].Text() == "200 0 'probe'") return "alive";
  }
  if (goaway_) {
    Await([] { return false; });  // until the server closes the connection
    return "goaway " + ErrorName(*goaway_) + (closed_ ? "" : " unclosed");
  }
  return closed_ ? "closed" : "stuck: " + streams_[kProbeStream].Text();
}

}  // namespace sluice::test
