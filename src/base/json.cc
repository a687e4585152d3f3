#include "base/json.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace sluice {
namespace {

// How many bytes a character takes that begins with `lead`.
std::size_t LengthAfter(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}

}  // namespace

std::string JsonString(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::string_view character = text.substr(0, LengthAfter(lead));
    if (lead == '"' || lead == '\\') {
      json.append({'\\', text.front()});
    } else if (lead < 0x20 || lead == 0x7f) {
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(lead));
    } else if (!IsValidUtf8(character)) {
      json += "\\ufffd";
      text.remove_prefix(1);
      continue;
    } else {
      json += character;
    }
    text.remove_prefix(character.size());
  }
  return json + '"';
}

}  // namespace sluice
