#include "client/grpc_call.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::size_t kFrameHeader = 5;
// The sent bytes of a request are erased if they are more than this, or if all bytes are sent.
constexpr std::size_t kMaxTaken = 64 * 1024;

std::size_t MessageSize(std::string_view frame) {
  std::size_t size = 0;
  for (std::size_t i = 1; i < kFrameHeader; ++i) {
    size = size << 8 | static_cast<unsigned char>(frame[i]);
  }
  return size;
}

}  // namespace

std::string GrpcFrame(std::string_view message) {
  std::string frame(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(message.size() >> shift);
  return frame.append(message);
}

void GrpcCall::OnHeader(std::string_view name, std::string_view value) {
  if (name == "grpc-status") {
    code_ = ParseCode(value);
  } else if (name == "grpc-message") {
    message_ = PercentDecode(value).value_or(std::string(value));
  } else if (name == ":status") {
    std::from_chars(value.data(), value.data() + value.size(), http_status_);
  }
}

void GrpcCall::OnData(std::string_view data) {
  if (partial_.empty()) {
    partial_.assign(data.substr(CutMessages(data)));
  } else {
    partial_ += data;
    partial_.erase(0, CutMessages(partial_));
  }
}

std::size_t GrpcCall::CutMessages(std::string_view data) {
  std::size_t cut = 0;
  while (data.size() - cut >= kFrameHeader) {
    const std::string_view frame = data.substr(cut);
    const std::size_t size = MessageSize(frame);
    if (frame.size() - kFrameHeader < size) break;
    if (frame[0] == 0) {
      OnMessage(frame.substr(kFrameHeader, size));
    } else {
      compressed_ = true;
    }
    cut += kFrameHeader + size;
  }
  return cut;
}

void GrpcCall::OnClose(std::uint32_t http2_error) { OnStatus(Status(http2_error)); }

GrpcStatus GrpcCall::Status(std::uint32_t http2_error) const {
  if (compressed_)
    return {GrpcStatus::kInternal, "an answer is compressed, but compression was not requested"};
  if (code_ >= 0) return {code_, message_};
  if (http2_error != 0) return StatusOfReset(http2_error);
  if (http_status_ != 200) return StatusOfHttp(http_status_);
  return {GrpcStatus::kUnknown, "the call ended without a grpc-status"};
}

std::size_t GrpcCall::TakeBody(char* buffer, std::size_t size, bool& ended) {
  const std::size_t taken = std::min(size, unsent());
  std::memcpy(buffer, request_.data() + taken_, taken);
  taken_ += taken;
  ended = request_complete_ && unsent() == 0;
  if (unsent() == 0 || taken_ > kMaxTaken) {
    request_.erase(0, taken_);
    taken_ = 0;
  }
  return taken;
}

void GrpcCall::Restart() {
  request_.clear();
  taken_ = 0;
  partial_.clear();
  http_status_ = 0;
  code_ = -1;
  message_.clear();
  compressed_ = false;
}

}  // namespace sluice
