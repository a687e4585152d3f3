#include "config/setting_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"
#include "base/secret.h"
#include "config/scalar_parser.h"

namespace sluice {

Error NotAllowed(std::string_view found, std::string_view allowed) {
  return InvalidArgument(fmt::format("found \"{}\"; allowed is {}", found, allowed));
}

Result<void> SetCount(std::size_t& setting, std::string_view text, std::size_t least,
                      std::size_t most) {
  const auto count = ParseNumber<std::size_t>(text);
  if (!count || *count < least || *count > most) {
    return NotAllowed(text, fmt::format("a whole number from {} to {}", least, most));
  }
  setting = *count;
  return {};
}

Result<void> SetBytes(std::size_t& setting, std::string_view text, std::size_t least,
                      std::size_t most, std::string_view allowed) {
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB"};
  std::size_t bytes = 1;
  for (const std::string_view unit : kUnits) {
    bytes <<= 10;
    if (!text.ends_with(unit)) continue;
    const auto count = ParseNumber<std::size_t>(text.substr(0, text.size() - unit.size()));
    if (!count || *count > most / bytes || *count * bytes < least) break;
    setting = *count * bytes;
    return {};
  }
  return NotAllowed(text, allowed);
}

Result<void> SetDuration(Duration& setting, std::string_view text, Duration least, Duration most,
                         std::string_view allowed) {
  const auto duration = ParseDuration(text);
  if (!duration || *duration < least || *duration > most) return NotAllowed(text, allowed);
  setting = *duration;
  return {};
}

Result<void> SetFlag(bool& setting, std::string_view text) {
  if (text != "true" && text != "false") return NotAllowed(text, "true or false");
  setting = text == "true";
  return {};
}

Result<void> SetWord(std::string& setting, std::string_view text,
                     std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    return NotAllowed(text, fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "),
                                        *(words.end() - 1)));
  }
  setting = text;
  return {};
}

Result<void> SetText(std::string& setting, std::string_view text) {
  setting = text;
  return {};
}

Result<void> SetAddress(Address& setting, std::string_view text) {
  const auto address = Address::Parse(text);
  if (!address) return address.error();
  setting = *address;
  return {};
}

Result<void> SetFile(std::string& setting, std::string_view text) {
  if (const auto content = ReadFile(std::string(text)); !content) return content.error();
  setting = text;
  return {};
}

Result<void> SetSecretFile(std::string& setting, std::string_view text) {
  if (const auto secret = ReadSecretFile(std::string(text)); !secret) return secret.error();
  setting = text;
  return {};
}

}  // namespace sluice
