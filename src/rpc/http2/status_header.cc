#include "rpc/http2/status_header.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice::rpc::http2 {
namespace {

constexpr std::array<std::string_view, 17> kNumbers = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"};

constexpr bool IsPlain(char c) { return c >= ' ' && c <= '~' && c != '%'; }

}  // namespace

std::string_view StatusNumber(StatusCode code) { return kNumbers[static_cast<std::size_t>(code)]; }

std::string PercentEncode(std::string_view message) {
  if (std::all_of(message.begin(), message.end(), IsPlain)) return std::string(message);
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : message) {
    if (IsPlain(c)) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return encoded;
}

}  // namespace sluice::rpc::http2
