#include "tests/rpc/http2/raw_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "net/socket.h"

namespace sluice::test {
namespace {

constexpr std::chrono::seconds kTimeout(10);
constexpr std::size_t kMaxFrame = 16 * 1024;
constexpr char kPing = 6;
constexpr char kContinuation = 9;
constexpr char kAck = 1;

std::uint32_t Number(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char c : bytes) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

// A string of HPACK (RFC 7541, section 5.2): its length with a prefix of 7 bits, then its bytes.
std::string HpackText(std::string_view text) {
  std::string coded;
  std::size_t rest = text.size();
  if (rest < 127) {
    coded += static_cast<char>(rest);
  } else {
    coded += static_cast<char>(127);
    for (rest -= 127; rest >= 128; rest /= 128) coded += static_cast<char>(128 + rest % 128);
    coded += static_cast<char>(rest);
  }
  return coded.append(text);
}

}  // namespace

int RawReply::status() const {
  const auto& last = trailers.empty() ? headers : trailers;
  const auto found = last.find("grpc-status");
  return found == last.end() ? -1 : std::stoi(found->second);
}

std::string RawReply::message() const {
  const auto& last = trailers.empty() ? headers : trailers;
  const auto found = last.find("grpc-message");
  return found == last.end() ? "" : found->second;
}

std::string Framed(std::string_view message, bool compressed) {
  const auto size = static_cast<std::uint32_t>(message.size());
  return std::string(1, compressed ? '\1' : '\0') + BigEndian(size, 4) + std::string(message);
}

std::string HeaderBlock(const Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block += '\0';
    block += HpackText(name) + HpackText(value);
  }
  return block;
}

Headers RequestHeaders(std::string_view path, const Headers& changes) {
  Headers headers = {{":method", "POST"},          {":scheme", "http"},
                     {":path", std::string(path)}, {":authority", "localhost"},
                     {"te", "trailers"},           {"content-type", "application/grpc"}};
  for (const auto& change : changes) {
    const auto found = std::find_if(headers.begin(), headers.end(),
                                    [&](const auto& it) { return it.first == change.first; });
    if (found == headers.end()) {
      headers.push_back(change);
    } else if (change.second.empty()) {
      headers.erase(found);
    } else {
      found->second = change.second;
    }
  }
  return headers;
}

RawClient::RawClient(const Address& address, bool greet) {
  const auto endpoint = net::Endpoint::FromNumeric(address);
  fd_ = socket(endpoint->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd_, endpoint->get(), endpoint->size) != 0) ended_ = true;
  constexpr int kOn = 1;
  setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
  nghttp2_hd_inflate_new(&inflater_);
  if (greet) {
    SendBytes(kHttp2Preface);
    Send({.type = Http2Frame::kSettings});
  }
}

RawClient::~RawClient() {
  nghttp2_hd_inflate_del(inflater_);
  close(fd_);
}

// Ignores errors: the server may have closed the connection. Tests depend only on the received
// frames.
void RawClient::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void RawClient::SendHeaders(std::uint32_t stream, const Headers& headers, bool end) {
  std::string block = HeaderBlock(headers);
  char type = Http2Frame::kHeaders;
  int flags = end ? Http2Frame::kEndStream : 0;
  do {
    const std::string part = block.substr(0, kMaxFrame);
    block.erase(0, part.size());
    if (block.empty()) flags |= Http2Frame::kEndHeaders;
    Send({.type = type, .stream = stream, .payload = part, .flags = static_cast<char>(flags)});
    type = kContinuation;
    flags = 0;
  } while (!block.empty());
}

void RawClient::SendData(std::uint32_t stream, std::string_view data, bool end) {
  do {
    const std::string_view part = data.substr(0, kMaxFrame);
    data.remove_prefix(part.size());
    Send({.type = Http2Frame::kData,
          .stream = stream,
          .payload = std::string(part),
          .flags = end && data.empty() ? Http2Frame::kEndStream : char{}});
  } while (!data.empty());
}

void RawClient::SendReset(std::uint32_t stream, std::uint32_t code) {
  Send({.type = Http2Frame::kResetStream, .stream = stream, .payload = BigEndian(code, 4)});
}

void RawClient::SendPing() { Send({.type = kPing, .payload = std::string(8, 'p')}); }

void RawClient::SendWindow(std::uint32_t stream, std::uint32_t bytes) {
  Send({.type = Http2Frame::kWindowUpdate, .stream = stream, .payload = BigEndian(bytes, 4)});
}

void RawClient::SendCall(std::uint32_t stream, std::string_view path, std::string_view message,
                         const Headers& changes) {
  SendHeaders(stream, RequestHeaders(path, changes));
  SendData(stream, Framed(message), true);
}

template <typename Done>
bool RawClient::ReadUntil(Done done) {
  const SteadyTime deadline = SteadyNow() + kTimeout;
  while (!done()) {
    if (ended_ || SteadyNow() > deadline) return false;
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, 100) > 0) ReadSome();
  }
  return true;
}

bool RawClient::ReadSome() {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
  if (got <= 0) {
    ended_ = true;
    return false;
  }
  received_.append(buffer.data(), static_cast<std::size_t>(got));
  while (const auto frame = Http2Frame::Take(received_)) Handle(*frame);
  return true;
}

void RawClient::Handle(const Http2Frame& frame) {
  RawReply& reply = replies_[frame.stream];
  switch (frame.type) {
    case Http2Frame::kHeaders:
      return HandleHeaders(frame);
    case Http2Frame::kData:
      reply.data += frame.payload;
      ++reply.data_frames;
      reply.ended = (frame.flags & Http2Frame::kEndStream) != 0;
      if (!returns_window_ || frame.payload.empty()) return;
      SendWindow(0, static_cast<std::uint32_t>(frame.payload.size()));
      return SendWindow(frame.stream, static_cast<std::uint32_t>(frame.payload.size()));
    case Http2Frame::kResetStream:
      reply.reset = static_cast<int>(Number(frame.payload));
      return;
    case Http2Frame::kWindowUpdate:
      windows_[frame.stream] += Number(frame.payload);
      return;
    case Http2Frame::kGoaway:
      goaways_.push_back({.last_stream = Number(frame.payload.substr(0, 4)),
                          .error = Number(frame.payload.substr(4, 4)),
                          .text = frame.payload.substr(8)});
      return;
    case Http2Frame::kSettings:
      if ((frame.flags & kAck) != 0) return;
      for (std::size_t i = 0; i + 6 <= frame.payload.size(); i += 6) {
        settings_[static_cast<int>(Number(frame.payload.substr(i, 2)))] =
            Number(frame.payload.substr(i + 2, 4));
      }
      has_settings_ = true;
      return Send({.type = Http2Frame::kSettings, .flags = kAck});
    case kPing:
      if ((frame.flags & kAck) != 0) {
        ++pongs_;
      } else if (answers_pings_) {
        Send({.type = kPing, .payload = frame.payload, .flags = kAck});
      }
      return;
    default:
      return;
  }
}

void RawClient::HandleHeaders(const Http2Frame& frame) {
  RawReply& reply = replies_[frame.stream];
  auto& fields = reply.headers.empty() ? reply.headers : reply.trailers;
  auto* bytes = reinterpret_cast<const std::uint8_t*>(frame.payload.data());
  std::size_t left = frame.payload.size();
  for (int flags = 0; (flags & NGHTTP2_HD_INFLATE_FINAL) == 0;) {
    nghttp2_nv field;
    const ssize_t used = nghttp2_hd_inflate_hd2(inflater_, &field, &flags, bytes, left, 1);
    if (used < 0) return;
    bytes += used;
    left -= static_cast<std::size_t>(used);
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) != 0) {
      fields[std::string(reinterpret_cast<char*>(field.name), field.namelen)] =
          std::string(reinterpret_cast<char*>(field.value), field.valuelen);
    }
  }
  nghttp2_hd_inflate_end_headers(inflater_);
  reply.ended = (frame.flags & Http2Frame::kEndStream) != 0;
}

RawReply RawClient::Await(std::uint32_t stream) {
  ReadUntil([&] { return replies_[stream].ended || replies_[stream].reset.has_value(); });
  return replies_[stream];
}

RawReply RawClient::AwaitData(std::uint32_t stream, std::size_t bytes) {
  ReadUntil([&] { return replies_[stream].data.size() >= bytes; });
  return replies_[stream];
}

bool RawClient::AwaitPong() {
  const int before = pongs_;
  return ReadUntil([&] { return pongs_ > before; });
}

std::optional<RawGoaway> RawClient::AwaitGoaway() {
  const auto final = [this] {
    return goaways_.size() > 1 || (!goaways_.empty() && goaways_.back().error != 0);
  };
  if (!ReadUntil(final)) return std::nullopt;
  return goaways_.back();
}

bool RawClient::AwaitEnd() {
  ReadUntil([this] { return ended_; });
  return ended_;
}

std::map<int, std::uint32_t> RawClient::AwaitSettings() {
  ReadUntil([this] { return has_settings_; });
  return settings_;
}

}  // namespace sluice::test
