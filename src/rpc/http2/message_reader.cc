#include "rpc/http2/message_reader.h"

namespace sluice::rpc::http2 {
namespace {

constexpr std::size_t kKeptBuffer = 16 * 1024;

std::size_t BigEndian32(const char* bytes) {
  std::size_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

}  // namespace

void MessageReader::Reset() {
  buffer_.clear();
  if (buffer_.capacity() > kKeptBuffer) buffer_.shrink_to_fit();
  taken_ = expected_ = 0;
  message_ = {};
  compressed_ = false;
}

void MessageReader::Append(std::string_view bytes) {
  if (taken_ > 0) {
    buffer_.erase(0, taken_);
    taken_ = 0;
  }
  buffer_.append(bytes);
}

MessageReader::Next MessageReader::Take(std::size_t max_bytes) {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  expected_ = 0;
  if (rest.empty()) return Next::kNothing;
  const auto flag = static_cast<unsigned char>(rest.front());
  if (flag > 1) return Next::kInvalid;
  if (rest.size() < kPrefixBytes) return Next::kPartial;
  expected_ = BigEndian32(rest.data() + 1);
  if (expected_ > max_bytes) return Next::kTooLarge;
  if (rest.size() < kPrefixBytes + expected_) return Next::kPartial;
  message_ = rest.substr(kPrefixBytes, expected_);
  compressed_ = flag == 1;
  taken_ += kPrefixBytes + expected_;
  return Next::kMessage;
}

}  // namespace sluice::rpc::http2
