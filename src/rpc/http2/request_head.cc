#include "rpc/http2/request_head.h"

#include <algorithm>
#include <array>
#include <limits>

namespace sluice::rpc::http2 {
namespace {

constexpr std::size_t kFieldOverhead = 32;
constexpr std::size_t kMaxEncodingName = 64;

// The units of grpc-timeout, and the nanoseconds in each.
constexpr std::string_view kUnits = "HMSmun";
constexpr std::array<std::int64_t, 6> kUnitNanoseconds = {
    3'600'000'000'000, 60'000'000'000, 1'000'000'000, 1'000'000, 1'000, 1};

Encoding ParseEncoding(std::string_view name) {
  if (name == "gzip") return Encoding::kGzip;
  if (name == "deflate") return Encoding::kDeflate;
  return name == "identity" ? Encoding::kIdentity : Encoding::kUnknown;
}

// Whether `value` is application/grpc, optionally followed by "+suffix" or ";parameter".
bool IsGrpcContentType(std::string_view value) {
  constexpr std::string_view kType = "application/grpc";
  if (!value.starts_with(kType)) return false;
  value.remove_prefix(kType.size());
  return value.empty() || value.front() == '+' || value.front() == ';';
}

}  // namespace

std::optional<std::chrono::nanoseconds> ParseTimeout(std::string_view text) {
  constexpr std::size_t kMaxDigits = 8;
  if (text.size() < 2 || text.size() > kMaxDigits + 1) return std::nullopt;
  const std::size_t found = kUnits.find(text.back());
  if (found == kUnits.npos) return std::nullopt;
  const std::int64_t unit = kUnitNanoseconds[found];
  std::int64_t count = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    count = count * 10 + (c - '0');
  }
  if (count > std::numeric_limits<std::int64_t>::max() / unit) {
    return std::chrono::nanoseconds::max();
  }
  return std::chrono::nanoseconds(count * unit);
}

void RequestHead::Clear() {
  text_.clear();
  if (text_.capacity() > kSmallBytes) text_.shrink_to_fit();
  metadata_.clear();
  size_ = 0;
  path_ = encoding_name_ = {};
  timeout_.reset();
  encoding_ = Encoding::kIdentity;
  is_post_ = is_grpc_ = false;
}

void RequestHead::Add(std::string_view name, std::string_view value,
                      std::span<const std::string> names) {
  size_ += name.size() + value.size() + kFieldOverhead;
  if (too_large() || AddOwn(name, value)) return;
  const auto wanted = std::ranges::find(names, name);
  if (wanted != names.end()) AddMetadata(*wanted, value);
}

void RequestHead::AddMetadata(std::string_view name, std::string_view value) {
  const auto known = std::ranges::find(metadata_, name, &Field::name);
  if (known != metadata_.end()) {
    known->repeated = true;
    return;
  }
  metadata_.push_back({.name = name, .value = Keep(value)});
}

// If the server itself reads the field, handles it. Otherwise returns false.
bool RequestHead::AddOwn(std::string_view name, std::string_view value) {
  if (name == ":path") {
    path_ = Keep(value.substr(0, kMaxPath));
  } else if (name == ":method") {
    is_post_ = value == "POST";
  } else if (name == "content-type") {
    is_grpc_ = IsGrpcContentType(value);
  } else if (name == "grpc-timeout") {
    timeout_ = ParseTimeout(value);
  } else if (name == "grpc-encoding") {
    encoding_ = ParseEncoding(value);
    if (encoding_ == Encoding::kUnknown && encoding_name_.size == 0) {
      encoding_name_ = Keep(value.substr(0, kMaxEncodingName));
    }
  } else {
    return false;
  }
  return true;
}

RequestHead::Slice RequestHead::Keep(std::string_view text) {
  const Slice slice{.begin = static_cast<std::uint32_t>(text_.size()),
                    .size = static_cast<std::uint32_t>(text.size())};
  text_.append(text);
  return slice;
}

std::optional<std::string_view> RequestHead::Metadata(std::string_view name) const {
  for (const Field& field : metadata_) {
    if (field.name == name && !field.repeated) return Text(field.value);
  }
  return std::nullopt;
}

}  // namespace sluice::rpc::http2
