#include "limiter/lease_name.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "match/rule.h"

namespace sluice {
namespace {

// <version>.<bits in hexadecimal>.<ttl in µs>.<store|local> <key> <key> …; keys have no spaces.
constexpr std::string_view kVersion = "1";
constexpr std::string_view kStore = "store";
constexpr std::string_view kLocal = "local";
constexpr Duration kMinTtl = std::chrono::milliseconds(1);
constexpr Duration kMaxTtl = std::chrono::days(3650);  // the maximum in rules

// Cuts off the text before `separator`; all of it if there is none.
std::string_view CutField(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return field;
}

bool ParseBits(std::string_view digits, std::array<std::uint8_t, 16>& bits) {
  if (digits.size() != 2 * bits.size()) return false;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const char* const end = digits.data() + 2 * i + 2;
    if (std::from_chars(end - 2, end, bits[i], 16).ptr != end) return false;
  }
  return true;
}

bool ParseTtl(std::string_view digits, Duration& ttl) {
  Duration::rep microseconds = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, microseconds);
  ttl = Duration(microseconds);
  return parsed.ec == std::errc() && parsed.ptr == end && ttl >= kMinTtl && ttl <= kMaxTtl;
}

// Whether RuleIndex builds such a key for a concurrency limit: "sluice:{…}…:concurrency", possibly
// with "." and the limit's name and "=" and what it counts appended, which have no colon.
bool IsConcurrencyKey(std::string_view key) {
  constexpr std::string_view kTag = ":concurrency";
  const std::size_t tag = key.rfind(kTag);
  if (!key.starts_with("sluice:{") || tag == std::string_view::npos) return false;
  if (key.substr(0, tag).find('}') == std::string_view::npos) return false;
  const std::string_view rest = key.substr(tag + kTag.size());
  const std::string_view name = rest.substr(0, rest.find('='));
  const std::string_view counts = rest.substr(name.size());
  if (counts.size() == 1 || counts.find(':') != std::string_view::npos) return false;
  if (name.empty()) return true;
  if (!name.starts_with('.') || name.size() == 1) return false;
  return name.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

}  // namespace

Lease LeaseName::lease() const {
  const std::int64_t microseconds = ttl.count();
  std::array<char, sizeof bits + sizeof microseconds> bound;
  std::memcpy(bound.data(), bits.data(), sizeof bits);
  std::memcpy(bound.data() + sizeof bits, &microseconds, sizeof microseconds);
  return {.id = Sha256Prefix128({bound.data(), bound.size()}), .ttl = ttl};
}

std::optional<std::string> LeaseName::ToText() const {
  std::string text = fmt::format("{}.{:02x}.{}.{} {}", kVersion, fmt::join(bits, ""), ttl.count(),
                                 local ? kLocal : kStore, fmt::join(keys, " "));
  if (text.size() > kMaxBytes) return std::nullopt;
  return text;
}

Result<LeaseName> LeaseName::Parse(std::string_view text) {
  const Error invalid = InvalidArgument("lease_id: is not a lease id from CheckLimit");
  if (text.size() > kMaxBytes) return invalid;
  LeaseName name;
  std::string_view rest = text;
  if (CutField(rest, '.') != kVersion || !ParseBits(CutField(rest, '.'), name.bits) ||
      !ParseTtl(CutField(rest, '.'), name.ttl)) {
    return invalid;
  }
  const std::string_view where = CutField(rest, ' ');
  name.local = where == kLocal;
  if (!name.local && where != kStore) return invalid;
  while (!rest.empty()) {
    const std::string_view key = CutField(rest, ' ');
    const bool twice = std::find(name.keys.begin(), name.keys.end(), key) != name.keys.end();
    if (twice || !IsConcurrencyKey(key)) return invalid;
    name.keys.push_back(key);
  }
  // One lease has one id: signs, leading zeros and spaces are refused even if they parse.
  if (name.keys.empty() || name.ToText() != text) return invalid;
  return name;
}

LeaseId NameInStore(const LeaseId& local) {
  return Sha256Prefix128({reinterpret_cast<const char*>(local.data()), local.size()});
}

const Limit& AnySlots() {
  static const Limit kSlots = Concurrency{};
  return kSlots;
}

void SetSlotCounters(std::span<const std::string_view> keys, StoreCheck& check) {
  check.counters.clear();
  for (const std::string_view key : keys) {
    check.counters.push_back({.key = key, .limit = &AnySlots(), .verdict = {}});
  }
}

}  // namespace sluice
