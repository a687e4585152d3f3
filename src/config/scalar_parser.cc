#include "config/scalar_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include <fmt/format.h>

#include "base/ip_address.h"
#include "base/text.h"

namespace sluice {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

struct Unit {
  std::string_view name;
  std::string_view word;  // the name after "per" in a rate; empty if rates must not use the unit
  Duration length;
};

constexpr std::array<Unit, 5> kUnits{{
    {"ms", "", milliseconds(1)},
    {"s", "second", seconds(1)},
    {"m", "minute", minutes(1)},
    {"h", "hour", hours(1)},
    {"d", "day", days(1)},
}};

constexpr Duration kLongest = days(3650);

constexpr std::array<std::string_view, 4> kIdentityTypes = {"dns", "uri", "ip", "email"};

// The likely type of a name that was given without a type.
std::string_view IdentityTypeOf(std::string_view name) {
  if (IpAddress::Parse(name)) return "ip";
  if (name.find(':') != std::string_view::npos) return "uri";
  return name.find('@') != std::string_view::npos ? "email" : "dns";
}

// Parses leading digits, without a sign; `text` becomes the rest.
std::optional<std::int64_t> TakeNumber(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

Error Found(std::string_view text, std::string_view allowed) {
  return InvalidArgument(fmt::format("found \"{}\"; allowed {}", text, allowed));
}

}  // namespace

Result<Duration> ParseDuration(std::string_view text) {
  std::string_view rest = text;
  const auto number = TakeNumber(rest);
  for (const Unit& unit : kUnits) {
    if (!number || unit.name != rest) continue;
    if (*number < 1 || *number > kLongest / unit.length) {
      return Found(text, "are durations from 1ms to 3650d");
    }
    return *number * unit.length;
  }
  return Found(text, "is a duration such as 250ms, 10s, 1m, 1h or 1d");
}

Result<Rate> ParseRate(std::string_view text) {
  std::string_view rest = text;
  const auto count = TakeNumber(rest);
  for (const Unit& unit : kUnits) {
    if (!count || *count < 1 || unit.word.empty()) continue;
    const bool is_short = rest.starts_with('/') && rest.substr(1) == unit.name;
    const bool is_long = rest.starts_with(" per ") && rest.substr(5) == unit.word;
    if (is_short || is_long) return Rate{*count, unit.length};
  }
  return Found(text,
               "is a rate in whole units such as 10/s, 600/m, 1000/h, 5000/d or 10 per second");
}

Result<std::int64_t> ParsePercent(std::string_view text) {
  std::string_view rest = text;
  const auto number = TakeNumber(rest);
  if (number && rest == "%") return *number;
  return Found(text, "is a percentage such as 90%");
}

Result<Duration> ParseUtcOffset(std::string_view text) {
  constexpr std::string_view kAllowed = "is an offset from -12:00 to +14:00 such as \"+08:00\"";
  const auto digit = [&](std::size_t at) { return text[at] - '0'; };
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') {
    return Found(text, kAllowed);
  }
  for (const std::size_t at : {1, 2, 4, 5}) {
    if (digit(at) < 0 || digit(at) > 9) return Found(text, kAllowed);
  }
  const int minute = digit(4) * 10 + digit(5);
  const Duration size = hours(digit(1) * 10 + digit(2)) + minutes(minute);
  const Duration offset = text[0] == '-' ? -size : size;
  if (minute > 59 || offset < -hours(12) || offset > hours(14)) return Found(text, kAllowed);
  return offset;
}

// The type is part of the name. A caller who may choose the URI in its certificate must not get the
// rights of an address with the same text.
Result<std::string> ParseIdentity(std::string_view text) {
  constexpr std::string_view kAllowed = "is a name with its type (dns:, uri:, ip: or email:)";
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string type = Lowercase(text.substr(0, colon));
  const bool has_type =
      colon < text.size() && std::ranges::find(kIdentityTypes, type) != kIdentityTypes.end();
  const std::string_view name = has_type ? text.substr(colon + 1) : text;
  if (name.empty()) return Found(text, kAllowed);
  if (!has_type || !text.starts_with(type)) {
    return Found(text, fmt::format("{}; write \"{}:{}\"", kAllowed,
                                   has_type ? type : IdentityTypeOf(name), name));
  }
  if (type != "ip") return std::string(text);
  const auto address = IpAddress::Parse(name);
  if (!address) return Found(text, "is an IP address after ip:");
  return "ip:" + address->ToString();
}

}  // namespace sluice
