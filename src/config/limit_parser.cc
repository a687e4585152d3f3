#include "config/limit_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "config/scalar_parser.h"
#include "core/vocabulary.h"
#include "match/counter_key.h"

namespace sluice {
namespace {

constexpr std::string_view kDurations = "is a duration such as 250ms, 10s, 1m, 1h or 1d";

void ParseAlignment(const ConfigMap& fields, FixedWindow& limit) {
  using Align = FixedWindow::Align;
  const bool is_month = limit.align == Align::kMonth;
  const auto align = fields.Find("align");
  if (align) {
    const auto wanted = align->OneOf<Align>(
        {{"first", Align::kFirst}, {"clock", Align::kClock}, {"epoch", Align::kEpoch}});
    if (!is_month) limit.align = wanted;
    if (is_month && wanted != Align::kClock) {
      align->ReportFound("with the window month is clock");
    }
  }
  const auto offset = fields.Find("utc_offset");
  if (!offset) return;
  limit.utc_offset =
      offset->Parsed(ParseUtcOffset, "is an offset such as \"+08:00\"").value_or(Duration::zero());
  if (limit.align == Align::kFirst || limit.align == Align::kEpoch) {
    offset->ReportFound("is an offset only with align: clock or window: month");
  }
}

Result<Duration> ParseWindow(std::string_view text) {
  auto window = ParseDuration(text);
  if (window) return window;
  return InvalidArgument(window.error().message + ", or month");
}

Limit ParseFixedWindow(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 6> kKeys{"algorithm", "name",  "limit",
                                                         "window",    "align", "utc_offset"};
  const ConfigMap fields(value, kKeys);
  FixedWindow limit;
  if (const auto most = fields.Require("limit", "is a whole number")) {
    limit.limit = most->Integer(1, kMaxProduct);
  }
  const std::string windows = std::string(kDurations) + ", or month";
  if (const auto window = fields.Require("window", windows)) {
    if (window->node().text == "month") {
      limit.align = FixedWindow::Align::kMonth;
    } else {
      limit.window = window->Parsed(ParseWindow, windows).value_or(Duration::zero());
    }
  }
  ParseAlignment(fields, limit);
  return limit;
}

Limit ParseSlidingLog(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 4> kKeys{"algorithm", "name", "limit", "window"};
  const ConfigMap fields(value, kKeys);
  SlidingLog limit;
  if (const auto most = fields.Require("limit", "is a whole number")) {
    limit.limit = most->Integer(1, SlidingLog::kMaxLimit);
  }
  if (const auto window = fields.Require("window", kDurations)) {
    limit.window = window->Parsed(ParseDuration, kDurations).value_or(Duration::zero());
  }
  return limit;
}

Limit ParseSlidingWindow(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 5> kKeys{"algorithm", "name", "limit", "window",
                                                         "segments"};
  const ConfigMap fields(value, kKeys);
  SlidingWindow limit;
  if (const auto most = fields.Require("limit", "is a whole number")) {
    limit.limit = most->Integer(1, kMaxProduct);
  }
  if (const auto window = fields.Require("window", kDurations)) {
    limit.window = window->Parsed(ParseDuration, kDurations).value_or(Duration::zero());
  }
  if (const auto segments = fields.Find("segments")) {
    limit.segments = segments->Integer(1, SlidingWindow::kMaxSegments);
  }
  return limit;
}

Rate ParseBucketRate(const ConfigMap& fields) {
  constexpr std::string_view kRates = "is a rate such as 10/s, 600/m, 1000/h or 5000/d";
  Rate rate{1, std::chrono::seconds(1)};
  if (const auto field = fields.Require("rate", kRates)) {
    rate = field->Parsed(ParseRate, kRates).value_or(rate);
    if (rate.count > TokenBucket::kMaxRate) {
      const bool is_shortest = rate.period == std::chrono::seconds(1);
      field->ReportFound(fmt::format("is at most {}/{}{}", TokenBucket::kMaxRate,
                                     FormatDuration(rate.period).substr(1),
                                     is_shortest ? "" : "; for more, use a shorter period"));
    }
  }
  return rate;
}

// A bucket's capacity is counted in 1/period of a unit.
std::int64_t ParseBucketSize(const ConfigValue& field, std::int64_t least, std::int64_t reserved,
                             const Rate& rate) {
  return field.Integer(least, TokenBucket::kMaxCapacity / rate.period.count() - reserved,
                       fmt::format(" with a rate in /{}", FormatDuration(rate.period).substr(1)));
}

bool ParseFlag(const ConfigValue& field) {
  return field.OneOf<bool>({{"true", true}, {"false", false}});
}

Result<Duration> ParseWarmup(std::string_view text) {
  auto warmup = ParseDuration(text);
  if (warmup && *warmup <= WarmingBucket::kMaxWarmup) return warmup;
  return InvalidArgument(fmt::format("found \"{}\"; allowed are durations from 1ms to {}", text,
                                     FormatDuration(WarmingBucket::kMaxWarmup)));
}

// With warmup the bucket is a WarmingBucket, which always borrows and starts cold.
Limit ParseWarmingBucket(const ConfigMap& fields, const Rate& rate, const ConfigValue& warmup) {
  WarmingBucket limit{.rate = rate.count, .period = rate.period};
  limit.warmup = warmup.Parsed(ParseWarmup, kDurations).value_or(std::chrono::seconds(1));
  if (const auto burst = fields.Find("burst")) {
    burst->ReportFound("is no burst with warmup: rate and warmup determine it");
  }
  if (const auto initial = fields.Find("initial")) {
    initial->ReportFound("is no initial with warmup: such a bucket starts cold");
  }
  if (const auto borrow = fields.Find("borrow"); borrow && !ParseFlag(*borrow)) {
    borrow->ReportFound("with warmup is true");
  }
  return limit;
}

Limit ParseTokenBucket(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 7> kKeys{"algorithm", "name",   "rate",  "burst",
                                                         "initial",   "borrow", "warmup"};
  const ConfigMap fields(value, kKeys);
  const Rate rate = ParseBucketRate(fields);
  if (const auto warmup = fields.Find("warmup")) return ParseWarmingBucket(fields, rate, *warmup);
  TokenBucket limit{.rate = rate.count, .period = rate.period};
  limit.burst = TokenBucket::DefaultBurst(rate.count, rate.period);
  if (const auto burst = fields.Find("burst")) limit.burst = ParseBucketSize(*burst, 1, 0, rate);
  if (const auto initial = fields.Find("initial")) {
    limit.starts_empty = initial->OneOf<bool>({{"full", false}, {"empty", true}});
  }
  if (const auto borrow = fields.Find("borrow")) limit.borrows = ParseFlag(*borrow);
  return limit;
}

Limit ParseLeakyBucket(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 5> kKeys{"algorithm", "name", "rate", "queue",
                                                         "delay"};
  const ConfigMap fields(value, kKeys);
  const Rate rate = ParseBucketRate(fields);
  LeakyBucket limit{.rate = rate.count, .period = rate.period};
  if (const auto queue = fields.Require("queue", "is a whole number")) {
    limit.queue = ParseBucketSize(*queue, 0, 1, rate);
  }
  if (const auto delay = fields.Find("delay")) limit.delays = ParseFlag(*delay);
  return limit;
}

Limit ParseConcurrency(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 4> kKeys{"algorithm", "name", "limit", "ttl"};
  const ConfigMap fields(value, kKeys);
  Concurrency limit;
  if (const auto most = fields.Require("limit", "is a whole number")) {
    limit.limit = most->Integer(1, Concurrency::kMaxLimit);
  }
  if (const auto ttl = fields.Require("ttl", kDurations)) {
    limit.ttl = ttl->Parsed(ParseDuration, kDurations).value_or(std::chrono::seconds(1));
  }
  return limit;
}

struct Syntax {
  Algorithm algorithm;
  Limit (*parse)(const ConfigValue& value);
};

constexpr std::array<Syntax, 6> kSyntax{{
    {Algorithm::kFixedWindow, ParseFixedWindow},
    {Algorithm::kSlidingLog, ParseSlidingLog},
    {Algorithm::kSlidingWindow, ParseSlidingWindow},
    {Algorithm::kTokenBucket, ParseTokenBucket},
    {Algorithm::kLeakyBucket, ParseLeakyBucket},
    {Algorithm::kConcurrency, ParseConcurrency},
}};

std::vector<std::string_view> AlgorithmNames() {
  std::vector<std::string_view> names;
  for (const Syntax& syntax : kSyntax) names.push_back(ToString(syntax.algorithm));
  return names;
}

// The algorithm and its parameters.
Limit ParseLimit(const ConfigValue& value) {
  if (value.node().kind != YamlNode::Kind::kMap) {
    value.ReportFound("is a map such as {algorithm: token_bucket, rate: 10/s}");
    return {};
  }
  const YamlNode* name = value.node().Find("algorithm");
  const auto names = AlgorithmNames();
  const std::string allowed = fmt::format("are {}", fmt::join(names, ", "));
  if (name == nullptr) {
    static constexpr std::array<std::string_view, 1> kKeys{"algorithm"};
    for (std::size_t i = 0; i < value.node().items.size(); i += 2) {
      const YamlNode& key = value.node().items[i];
      const std::string guess = DidYouMean(key.text, kKeys);
      if (guess.empty()) continue;
      value.At(key.text, key).Report("unknown key" + guess);
      return {};
    }
    value.Report("the key algorithm is missing; allowed " + allowed);
    return {};
  }
  for (const Syntax& syntax : kSyntax) {
    const bool is_name = name->kind == YamlNode::Kind::kScalar;
    if (is_name && ToString(syntax.algorithm) == name->text) return syntax.parse(value);
  }
  value.At("algorithm", *name).ReportFound(allowed + DidYouMean(name->text, names));
  return {};
}

}  // namespace

std::vector<RuleLimit> ParseLimitItems(const ConfigValue& list, std::string_view allowed) {
  std::vector<RuleLimit> limits;
  for (const ConfigValue& item : list.Items(allowed)) {
    const std::size_t errors = item.report().errors.size();
    RuleLimit limit = ParseLimit(item);
    const bool is_map = item.node().kind == YamlNode::Kind::kMap;
    if (const YamlNode* const name = is_map ? item.node().Find("name") : nullptr) {
      limit.name = item.At("name", *name).Name();
    }
    const std::string tag = CounterTag(limit);
    const bool is_repeated = std::any_of(limits.begin(), limits.end(), [&](const RuleLimit& other) {
      return CounterTag(other) == tag;
    });
    if (is_repeated && item.report().errors.size() == errors) {
      item.Report(fmt::format(
          "found a second limit {}; allowed is one, or a different name for each", tag));
    }
    limits.push_back(std::move(limit));
  }
  return limits;
}

}  // namespace sluice
