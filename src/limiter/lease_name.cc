#include "limiter/lease_name.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "base/text.h"
#include "limiter/limit_text.h"
#include "match/counter_key.h"

namespace sluice {
namespace {

// 1.<bits in hexadecimal>.<ttl in µs>.<store|local> <key> <key> …
// Keys have no spaces. If a limit follows the load, <limit>| precedes its key, and after store or
// local comes @<µs>, the time at which the slots were taken.
// 2.<bits>.<ttl>.<store|local> <value>:<name>/… <limit>|<group>.<index>|<amount>*<weight>+…|<key> …
// Here, ~ stands for the beginning of a key, up to the tag, if the previous key has the same
// beginning. ! precedes a counter that settling the lease does not change (`stays`).
constexpr std::string_view kSlots = "1";
constexpr std::string_view kUnits = "2";
constexpr std::string_view kStore = "store";
constexpr std::string_view kLocal = "local";
constexpr std::string_view kKeyStart = "sluice:{";
constexpr char kStays = '!';
constexpr Duration kMinTtl = std::chrono::milliseconds(1);
constexpr Duration kMaxTtl = std::chrono::days(3650);  // the maximum in rules

// Removes and returns the text before `separator`, or all text if there is no separator.
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

template <typename Number>
bool ParseNumber(std::string_view digits, Number& number, Number most) {
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end && number >= 0 && number <= most;
}

// Where the tag of `limit` begins in the key of a counter.
std::size_t TagIn(std::string_view key, const Limit& limit) {
  const std::size_t tag = key.rfind(":" + CounterTag(limit));
  return tag == std::string_view::npos ? tag : tag + 1;
}

// Whether RuleIndex can build this key for a limit with the tag of `limit`:
// "sluice:{…}…:token_bucket:1s", possibly followed by "." and the limit's name, and by "=" and what
// the limit counts. Neither the name nor what follows "=" has a colon.
bool IsKeyOf(const Limit& limit, std::string_view key) {
  const std::size_t tag = TagIn(key, limit);
  if (!key.starts_with(kKeyStart) || tag == std::string_view::npos) return false;
  if (key.substr(0, tag).find('}') == std::string_view::npos) return false;
  const std::string_view rest = key.substr(tag + CounterTag(limit).size());
  const std::string_view name = rest.substr(0, rest.find('='));
  const std::string_view counts = rest.substr(name.size());
  if (counts.size() == 1 || counts.find(':') != std::string_view::npos) return false;
  if (name.empty()) return true;
  if (!name.starts_with('.') || name.size() == 1) return false;
  return name.find_first_not_of(kNameCharacters) == std::string_view::npos;
}

// The key that `text` stands for. If `text` is abbreviated, the key begins like `previous->key`.
std::optional<std::string> ParseKey(std::string_view text, const Limit& limit,
                                    const LeaseName::Counter* previous) {
  std::string key(text);
  if (text.starts_with('~')) {
    if (previous == nullptr) return std::nullopt;
    key.replace(0, 1, previous->key, 0, TagIn(previous->key, previous->limit));
  }
  if (!IsKeyOf(limit, key)) return std::nullopt;
  return key;
}

bool ParseAmounts(std::string_view text, std::vector<LeaseName::Amount>& amounts) {
  while (!text.empty()) {
    std::string_view entry = CutField(text, '/');
    std::int64_t value = 0;
    const bool is_number = ParseNumber(CutField(entry, ':'), value, kMaxCost);
    auto name = PercentDecode(entry);
    if (!is_number || !name || name->empty()) return false;
    if (std::ranges::count(amounts, *name, &LeaseName::Amount::name) > 0) return false;
    amounts.push_back({.name = std::move(*name), .value = value});
  }
  return true;
}

bool ParseCounts(std::string_view text, const std::vector<LeaseName::Amount>& amounts,
                 std::vector<LeaseName::Counter::Counted>& counts) {
  while (!text.empty()) {
    std::string_view entry = CutField(text, '+');
    LeaseName::Counter::Counted counted;
    if (!ParseNumber(CutField(entry, '*'), counted.amount, amounts.size()) ||
        counted.amount == amounts.size() ||
        !ParseNumber(entry, counted.weight, CountedAmount::kMaxWeight)) {
      return false;
    }
    counts.push_back(counted);
  }
  return !counts.empty();
}

bool ParseCounter(std::string_view text, LeaseName& name) {
  LeaseName::Counter counter;
  counter.stays = !name.local && text.starts_with(kStays);
  if (counter.stays) text.remove_prefix(1);
  const auto limit = ParseLimitText(CutField(text, '|'));
  std::string_view place = CutField(text, '|');
  if (!limit || !ParseNumber(CutField(place, '.'), counter.group, std::uint16_t{0xFFFF}) ||
      !ParseNumber(place, counter.index, std::uint32_t{0xFFFF}) ||
      !ParseCounts(CutField(text, '|'), name.amounts, counter.counts)) {
    return false;
  }
  counter.limit = *limit;
  auto key = ParseKey(text, *limit, name.counters.empty() ? nullptr : &name.counters.back());
  if (!key || (!name.counters.empty() && counter.group < name.counters.back().group)) return false;
  counter.key = std::move(*key);
  name.counters.push_back(std::move(counter));
  return true;
}

bool ParseSlots(std::string_view text, LeaseName& name) {
  std::optional<Limit> limit = AnySlots();
  if (!text.starts_with(kKeyStart)) limit = ParseLimitText(CutField(text, '|'));
  if (!limit || !TakesLeases(*limit) || !IsKeyOf(*limit, text)) return false;
  name.counters.push_back({.key = std::string(text), .limit = *limit});
  return true;
}

// Parses where and when the lease was granted.
bool ParseGrant(std::string_view text, LeaseName& name) {
  const std::string_view where = CutField(text, '@');
  name.local = where == kLocal;
  if (text.empty()) return name.local || where == kStore;
  std::int64_t taken = 0;
  if (!ParseNumber(text, taken, LeaseName::kLatest.time_since_epoch().count())) return false;
  name.taken = Time(Duration(taken));
  return name.local || where == kStore;
}

// Whether a server can have made this combination of `stays`. Counters of one hash tag share a
// record, which is settled as a whole, so all or none of them stay. At least one counter must be
// settled.
bool MayStay(const std::vector<LeaseName::Counter>& counters) {
  const auto hash_tag = [](std::string_view key) { return key.substr(0, key.find('}')); };
  bool any_settled = false;
  for (const LeaseName::Counter& counter : counters) {
    any_settled |= !counter.stays;
    for (const LeaseName::Counter& other : counters) {
      if (counter.stays == other.stays) continue;
      if (hash_tag(counter.key) == hash_tag(other.key)) return false;
    }
  }
  return any_settled;
}

bool KeysDiffer(const std::vector<LeaseName::Counter>& counters) {
  std::vector<std::string_view> keys;
  for (const LeaseName::Counter& counter : counters) keys.push_back(counter.key);
  std::ranges::sort(keys);
  return std::ranges::adjacent_find(keys) == keys.end();
}

void AppendCounter(const LeaseName::Counter& counter, const LeaseName::Counter* previous,
                   std::string& out) {
  AppendLimit(counter.limit, out);
  fmt::format_to(std::back_inserter(out), "|{}.{}|", counter.group, counter.index);
  for (const auto& counted : counter.counts) {
    if (&counted != &counter.counts.front()) out += '+';
    fmt::format_to(std::back_inserter(out), "{}*{}", counted.amount, counted.weight);
  }
  out += '|';
  const std::size_t tag = TagIn(counter.key, counter.limit);
  const bool is_alike =
      previous != nullptr &&
      std::string_view(previous->key).substr(0, TagIn(previous->key, previous->limit)) ==
          std::string_view(counter.key).substr(0, tag);
  if (is_alike) out += '~';
  out += is_alike ? std::string_view(counter.key).substr(tag) : counter.key;
}

// The part of the id after <store|local>, and after @<µs> if the id has it.
std::string RestOf(const LeaseName& name, bool with_stays) {
  std::string text;
  for (const LeaseName::Amount& amount : name.amounts) {
    text += &amount == &name.amounts.front() ? ' ' : '/';
    fmt::format_to(std::back_inserter(text), "{}:", amount.value);
    AppendEscaped(amount.name, text);
  }
  const LeaseName::Counter* previous = nullptr;
  for (const LeaseName::Counter& counter : name.counters) {
    text += ' ';
    if (with_stays && counter.stays) text += kStays;
    if (name.units) {
      AppendCounter(counter, previous, text);
    } else {
      if (AdaptationOf(counter.limit) != nullptr) {
        AppendLimit(counter.limit, text);
        text += '|';
      }
      text += counter.key;
    }
    previous = &counter;
  }
  return text;
}

// The part of the id before <store|local>.
std::string StartOf(const LeaseName& name) {
  return fmt::format("{}.{:02x}.{}.", name.units ? kUnits : kSlots, fmt::join(name.bits, ""),
                     name.ttl.count());
}

}  // namespace

void LeaseName::Add(const CounterCheck& counter, std::uint32_t index, const Counts& its_counts,
                    const std::function<std::int64_t(std::string_view)>& amount_of) {
  static const Counts kCost{{.name = std::string(CountedAmount::kCost)}};
  Counter& added = counters.emplace_back();
  added.key = counter.key;
  added.limit = *counter.limit;
  added.group = counter.group;
  added.index = index;
  for (const CountedAmount& counted : its_counts.empty() ? kCost : its_counts) {
    auto known = std::ranges::find(amounts, counted.name, &Amount::name);
    if (known == amounts.end()) {
      amounts.push_back({.name = counted.name, .value = amount_of(counted.name)});
      known = std::prev(amounts.end());
    }
    added.counts.push_back(
        {.amount = static_cast<std::size_t>(known - amounts.begin()), .weight = counted.weight});
  }
}

void LeaseName::AddSlots(const CounterCheck& counter) {
  const bool adapts = AdaptationOf(*counter.limit) != nullptr;
  counters.push_back(
      {.key = std::string(counter.key), .limit = adapts ? *counter.limit : AnySlots()});
}

void LeaseName::SetTaken(Time at) {
  const bool adapts = std::ranges::any_of(counters, AdaptationOf, &Counter::limit);
  taken = adapts ? std::optional(at) : std::nullopt;
}

Lease LeaseName::lease() const {
  if (units)
    return {.id = Sha256Prefix128(StartOf(*this) + RestOf(*this, /*with_stays=*/false)),
            .ttl = ttl};
  const std::int64_t microseconds = ttl.count();
  std::array<char, sizeof bits + sizeof microseconds> bound;
  std::memcpy(bound.data(), bits.data(), sizeof bits);
  std::memcpy(bound.data() + sizeof bits, &microseconds, sizeof microseconds);
  return {.id = Sha256Prefix128({bound.data(), bound.size()}), .ttl = ttl};
}

std::optional<std::string> LeaseName::ToText() const {
  std::string text = StartOf(*this);
  text += local ? kLocal : kStore;
  if (taken) fmt::format_to(std::back_inserter(text), "@{}", taken->time_since_epoch().count());
  text += RestOf(*this, /*with_stays=*/true);
  if (text.size() > kMaxBytes) return std::nullopt;
  return text;
}

Result<LeaseName> LeaseName::Parse(std::string_view text) {
  const Error invalid = InvalidArgument("lease_id: is not a lease id from CheckLimit");
  if (text.size() > kMaxBytes) return invalid;
  LeaseName name;
  std::string_view rest = text;
  const std::string_view version = CutField(rest, '.');
  name.units = version == kUnits;
  Duration::rep ttl = 0;
  if ((!name.units && version != kSlots) || !ParseBits(CutField(rest, '.'), name.bits) ||
      !ParseNumber(CutField(rest, '.'), ttl, kMaxTtl.count()) || Duration(ttl) < kMinTtl) {
    return invalid;
  }
  name.ttl = Duration(ttl);
  if (!ParseGrant(CutField(rest, ' '), name)) return invalid;
  if (name.units && !ParseAmounts(CutField(rest, ' '), name.amounts)) return invalid;
  while (!rest.empty()) {
    const std::string_view counter = CutField(rest, ' ');
    if (!(name.units ? ParseCounter(counter, name) : ParseSlots(counter, name))) return invalid;
  }
  // One lease has one id: signs, leading zeros and spaces are refused even if they parse.
  const bool is_valid = MayStay(name.counters) && KeysDiffer(name.counters);
  if (!is_valid || name.ToText() != text) return invalid;
  return name;
}

void LeaseName::FillIn(StoreCheck& check) {
  check.lease = lease();
  std::erase_if(counters, [](const Counter& it) { return it.stays; });
  check.counters.clear();
  for (const Counter& counter : counters) {
    check.counters.push_back(
        {.key = counter.key, .limit = &counter.limit, .group = counter.group, .units = kAsTaken});
  }
  check.leases_units = units;
}

std::optional<std::int64_t> LeaseName::UnitsOf(const Counter& counter,
                                               const std::vector<Amount>& values) {
  std::int64_t units = 0;
  for (const Counter::Counted& counted : counter.counts) {
    const std::int64_t amount = values[counted.amount].value;
    if (amount > (kMaxCost - units) / std::max<std::int64_t>(1, counted.weight)) return {};
    units += amount * counted.weight;
  }
  return units;
}

std::string LeaseName::RuleOf(const Counter& counter) {
  std::string_view key = counter.key;
  const std::size_t brace = key.find('}');
  const bool is_colocated = brace + 1 < key.size() && key[brace + 1] != ':';
  key.remove_prefix(is_colocated ? brace + 1 : std::min(key.find('/') + 1, key.size()));
  std::string_view rule = key.substr(0, key.find_first_of("/}"));
  rule = rule.substr(0, rule.find('~'));
  return PercentDecode(rule).value_or(std::string(rule));
}

std::string LeaseName::DomainOf(const Counter& counter) {
  std::string_view key = counter.key;
  key.remove_prefix(kKeyStart.size());
  const std::string_view domain = key.substr(0, key.find_first_of("/}"));
  return PercentDecode(domain).value_or(std::string(domain));
}

LeaseId NameInStore(const LeaseId& local) {
  return Sha256Prefix128({reinterpret_cast<const char*>(local.data()), local.size()});
}

const Limit& AnySlots() {
  static const Limit kAnySlots = Concurrency{};
  return kAnySlots;
}

}  // namespace sluice
