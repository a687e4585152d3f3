#include "base/text.h"

#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Byte = unsigned char;

// The first position at or after `at` that is not ASCII. Reads eight bytes at a time.
std::size_t SkipAscii(std::string_view bytes, std::size_t at) {
  constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    if (word & kHighBits) break;
  }
  while (at < bytes.size() && static_cast<Byte>(bytes[at]) < 0x80) ++at;
  return at;
}

// The bytes that must follow a lead byte: their number, and the range of the first of them. This
// range excludes overlong forms, surrogates and code points beyond U+10FFFF.
struct Tail {
  std::size_t length = 0;  // 0: not a lead byte
  Byte low = 0x80;
  Byte high = 0xBF;
};

Tail TailOf(Byte lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return {1};
  if (lead == 0xE0) return {2, 0xA0, 0xBF};
  if (lead == 0xED) return {2, 0x80, 0x9F};
  if (lead >= 0xE1 && lead <= 0xEF) return {2};
  if (lead == 0xF0) return {3, 0x90, 0xBF};
  if (lead == 0xF4) return {3, 0x80, 0x8F};
  if (lead >= 0xF1 && lead <= 0xF3) return {3};
  return {};
}

// Decodes the valid escapes. Sets `is_valid` to false if there are others.
std::string DecodeEscapes(std::string_view text, bool& is_valid) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view digits = text.substr(i + 1, 2);
    const bool is_escape = text[i] == '%' && digits.size() == 2;
    const auto byte = is_escape ? ParseNumber<Byte>(digits, 16) : std::nullopt;
    if (text[i] == '%' && !byte) is_valid = false;
    decoded += byte ? static_cast<char>(*byte) : text[i];
    if (byte) i += 2;
  }
  return decoded;
}

}  // namespace

std::string Lowercase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string PrintableText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool IsValidUtf8(std::string_view bytes) {
  for (std::size_t at = SkipAscii(bytes, 0); at < bytes.size(); at = SkipAscii(bytes, at)) {
    const Tail tail = TailOf(static_cast<Byte>(bytes[at]));
    if (tail.length == 0 || bytes.size() - at <= tail.length) return false;
    const Byte second = static_cast<Byte>(bytes[at + 1]);
    if (second < tail.low || second > tail.high) return false;
    for (std::size_t i = 2; i <= tail.length; ++i) {
      if ((static_cast<Byte>(bytes[at + i]) & 0xC0) != 0x80) return false;
    }
    at += tail.length + 1;
  }
  return true;
}

std::optional<std::string> PercentDecode(std::string_view text) {
  bool is_valid = true;
  std::string decoded = DecodeEscapes(text, is_valid);
  if (!is_valid) return std::nullopt;
  return decoded;
}

std::string PercentDecodeValid(std::string_view text) {
  bool is_valid = true;
  return DecodeEscapes(text, is_valid);
}

std::string JsonString(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace sluice
