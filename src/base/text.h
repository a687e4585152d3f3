// Text: numbers, UTF-8, percent-encoding, JSON strings.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

// All of `text` as a number; nullopt if `text` is not a number or the number is out of range.
// `base`: the base of the digits, only for integers; 10 by default.
template <typename Number, typename... Base>
std::optional<Number> ParseNumber(std::string_view text, Base... base) {
  Number number{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The text with a to z instead of A to Z.
std::string Lowercase(std::string_view text);

// Whether `bytes` is well-formed UTF-8 (Unicode standard, table 3-7): no overlong forms, no
// surrogates, nothing beyond U+10FFFF. NUL is allowed.
bool IsValidUtf8(std::string_view bytes);

// The text with \xHH instead of each byte that is not printable ASCII, so that it cannot control a
// terminal.
std::string PrintableText(std::string_view text);

// Decodes the percent-encoding of URLs (RFC 3986). Returns nullopt if a % is not followed by two
// hexadecimal digits.
std::optional<std::string> PercentDecode(std::string_view text);

// Like PercentDecode, but such a % stays as it is.
std::string PercentDecodeValid(std::string_view text);

// Returns `text` as a JSON string with quotes and escapes, and therefore without line breaks.
// Invalid UTF-8 becomes U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace sluice
