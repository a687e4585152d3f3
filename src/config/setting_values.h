// The kinds of values that settings have. Each function sets one from the text of a flag, a
// variable or the file; if it cannot, its error says what was found and what is allowed.
#pragma once

#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"

namespace sluice {

[[nodiscard]] Error NotAllowed(std::string_view found, std::string_view allowed);

// The whole of `text` as a number.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// From `least` to `most`.
Result<void> SetCount(std::size_t& setting, std::string_view text, std::size_t least,
                      std::size_t most);

// From `least` to `most` bytes, given with a unit: KiB, MiB or GiB; `allowed` says so in words.
Result<void> SetBytes(std::size_t& setting, std::string_view text, std::size_t least,
                      std::size_t most, std::string_view allowed);

// From `least` to `most`; `allowed` says so in words.
Result<void> SetDuration(Duration& setting, std::string_view text, Duration least, Duration most,
                         std::string_view allowed);

// true or false.
Result<void> SetFlag(bool& setting, std::string_view text);

// One of at least two words.
Result<void> SetWord(std::string& setting, std::string_view text,
                     std::initializer_list<std::string_view> words);

Result<void> SetText(std::string& setting, std::string_view text);

Result<void> SetAddress(Address& setting, std::string_view text);

// The path of a file that must exist, so that a wrong name is reported at startup.
Result<void> SetFile(std::string& setting, std::string_view text);

// The path of a file with a secret, which is reloaded when it changes.
Result<void> SetSecretFile(std::string& setting, std::string_view text);

}  // namespace sluice
