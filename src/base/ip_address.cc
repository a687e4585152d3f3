#include "base/ip_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {
namespace {

constexpr std::array<std::uint8_t, 12> kMappedV4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

bool IsMappedV4(const std::array<std::uint8_t, 16>& bytes) {
  return std::equal(kMappedV4.begin(), kMappedV4.end(), bytes.begin());
}

using Groups = std::array<unsigned, 8>;

// The start and length of the longest run of two or more zero groups, which RFC 5952 writes as
// "::". If several runs are equally long, the first.
std::pair<std::size_t, std::size_t> LongestZeroRun(const Groups& groups) {
  std::pair<std::size_t, std::size_t> best{groups.size(), 1};
  for (std::size_t start = 0; start < groups.size(); ++start) {
    std::size_t end = start;
    while (end < groups.size() && groups[end] == 0) ++end;
    if (end - start > best.second) best = {start, end - start};
    start = std::max(start, end);
  }
  return best;
}

void AppendV6(const std::array<std::uint8_t, 16>& bytes, std::string& out) {
  Groups groups;
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = bytes[2 * i] << 8 | bytes[2 * i + 1];
  const auto [zeros, length] = LongestZeroRun(groups);
  for (std::size_t i = 0; i < groups.size();) {
    if (i == zeros) {
      out += "::";
      i += length;
      continue;
    }
    if (i > 0 && out.back() != ':') out += ':';
    fmt::format_to(std::back_inserter(out), "{:x}", groups[i++]);
  }
}

}  // namespace

std::optional<IpAddress> IpAddress::Parse(std::string_view text) {
  const bool has_colon = text.find(':') != std::string_view::npos;
  if (has_colon) text = text.substr(0, text.find('%'));
  std::array<char, INET6_ADDRSTRLEN> buffer;
  // inet_pton would stop at a NUL and accept the text before it.
  if (text.empty() || text.size() >= buffer.size() || text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  std::memcpy(buffer.data(), text.data(), text.size());
  buffer[text.size()] = '\0';
  IpAddress address;
  address.v4_ = !has_colon;
  if (inet_pton(has_colon ? AF_INET6 : AF_INET, buffer.data(), address.bytes_.data()) != 1) {
    return std::nullopt;
  }
  if (has_colon && IsMappedV4(address.bytes_)) {
    std::copy_n(address.bytes_.begin() + 12, 4, address.bytes_.begin());
    std::fill(address.bytes_.begin() + 4, address.bytes_.end(), 0);
    address.v4_ = true;
  }
  return address;
}

IpAddress IpAddress::Masked(int prefix) const {
  IpAddress masked = *this;
  const auto whole = static_cast<std::size_t>(prefix / 8);
  if (whole < masked.bytes_.size()) {
    masked.bytes_[whole] &= static_cast<std::uint8_t>(0xFF00 >> (prefix % 8));
    std::fill(masked.bytes_.begin() + static_cast<int>(whole) + 1, masked.bytes_.end(), 0);
  }
  return masked;
}

std::string IpAddress::ToString() const {
  std::string text;
  AppendTo(text);
  return text;
}

void IpAddress::AppendTo(std::string& out) const {
  if (!v4_) return AppendV6(bytes_, out);
  fmt::format_to(std::back_inserter(out), "{}.{}.{}.{}", bytes_[0], bytes_[1], bytes_[2],
                 bytes_[3]);
}

Result<IpNetwork> IpNetwork::Parse(std::string_view text) {
  const auto malformed = [&](std::string_view allowed) {
    return InvalidArgument(fmt::format("found \"{}\"; {}", text, allowed));
  };
  constexpr std::string_view kForm = "allowed is a network such as 10.0.0.0/8 or 2001:db8::/32";
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return malformed(kForm);
  const auto address = IpAddress::Parse(text.substr(0, slash));
  const auto prefix = ParseNumber<int>(text.substr(slash + 1));
  if (!address || !prefix) return malformed(kForm);
  const bool was_mapped = address->is_v4() && text.find(':') != std::string_view::npos;
  const int least = was_mapped ? 96 : 0;
  const int most = least + address->bits();
  if (*prefix < least || *prefix > most) {
    return malformed(fmt::format("allowed are prefix lengths from {} to {}", least, most));
  }
  const IpNetwork network = Of(*address, *prefix - least);
  if (network.address != *address) {
    return malformed(fmt::format("bits beyond the prefix must be zero (did you mean \"{}\"?)",
                                 network.ToString()));
  }
  return network;
}

std::string IpNetwork::ToString() const { return fmt::format("{}/{}", address.ToString(), prefix); }

std::size_t IpNetwork::Hash() const {
  const auto& bytes = address.bytes_;
  return CombineHash(sluice::Hash({reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
                     static_cast<std::size_t>(prefix) * 2 + address.is_v4());
}

}  // namespace sluice
