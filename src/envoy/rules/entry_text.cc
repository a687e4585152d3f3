#include "envoy/rules/entry_text.h"

#include "base/hash.h"

namespace sluice::envoy {
namespace {

// '#' begins a digest, and '(' begins the name of the rule for limits in requests.
constexpr std::string_view kSpecial = "\\,=#(";

void AppendEscaped(std::string_view text, std::string& out) {
  for (auto at = text.find_first_of(kSpecial); at != std::string_view::npos;
       at = text.find_first_of(kSpecial)) {
    out.append(text.substr(0, at)).append("\\").append(1, text[at]);
    text.remove_prefix(at + 1);
  }
  out.append(text);
}

}  // namespace

void AppendKey(std::string_view key, std::string& out) {
  if (!out.empty()) out += ',';
  AppendEscaped(key, out);
}

void AppendEntry(std::string_view key, std::string_view value, std::string& out) {
  AppendKey(key, out);
  out += '=';
  AppendEscaped(value, out);
}

std::vector<std::string> SplitEntries(std::string_view text) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      parts.back() += text[++i];
    } else if (text[i] == '=' && parts.size() % 2 == 1) {
      parts.emplace_back();
    } else if (text[i] == ',') {
      parts.resize((parts.size() + 1) / 2 * 2 + 1);
    } else {
      parts.back() += text[i];
    }
  }
  parts.resize((parts.size() + 1) / 2 * 2);
  return parts;
}

void DigestIfLong(std::string& entries) {
  if (entries.size() > kMaxEntriesBytes) entries = "#" + Sha256Hex128(entries);
}

}  // namespace sluice::envoy
