#include "config/limit_parser.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "config/scalar_parser.h"
#include "core/vocabulary.h"

namespace sluice {
namespace {

constexpr std::string_view kDurations = "is a duration such as 250ms, 10s, 1m, 1h or 1d";

void ParseAlignment(const ConfigMap& fields, FixedWindow& limit) {
  using Align = FixedWindow::Align;
  const bool is_month = limit.align == Align::kMonth;
  const auto align = fields.Find("align");
  if (align) {
    const auto wanted = align->OneOf<Align>({{"first", Align::kFirst}, {"clock", Align::kClock}});
    if (!is_month) limit.align = wanted;
    if (is_month && wanted == Align::kFirst) {
      align->ReportFound("with the window month is clock");
    }
  }
  const auto offset = fields.Find("utc_offset");
  if (!offset) return;
  limit.utc_offset =
      offset->Parsed(ParseUtcOffset, "is an offset such as \"+08:00\"").value_or(Duration::zero());
  if (limit.align == Align::kFirst) {
    offset->ReportFound("is an offset only with align: clock or window: month");
  }
}

Limit ParseFixedWindow(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 5> kKeys{"algorithm", "limit", "window", "align",
                                                         "utc_offset"};
  const ConfigMap fields(value, kKeys);
  FixedWindow limit;
  if (const auto most = fields.Require("limit", "is a whole number")) {
    limit.limit = most->Integer(1, kMaxProduct);
  }
  if (const auto window = fields.Require("window", std::string(kDurations) + ", or month")) {
    if (window->node().text == "month") {
      limit.align = FixedWindow::Align::kMonth;
    } else {
      limit.window = window->Parsed(ParseDuration, kDurations).value_or(Duration::zero());
    }
  }
  ParseAlignment(fields, limit);
  return limit;
}

Limit ParseSlidingLog(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 3> kKeys{"algorithm", "limit", "window"};
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

// A bucket can go into debt by 10 × max(burst, 60 s of rate), counted in units of 1/period of a
// token. That must stay exact in a double; it is well below kMaxProduct's bounds on both factors.
constexpr std::int64_t kMaxDebt = (std::int64_t{1} << 53) / 10;
constexpr std::int64_t kMaxRate = kMaxDebt / Duration(std::chrono::minutes(1)).count();

Limit ParseTokenBucket(const ConfigValue& value) {
  static constexpr std::array<std::string_view, 4> kKeys{"algorithm", "rate", "burst", "initial"};
  constexpr std::string_view kRates = "is a rate such as 10/s, 600/m, 1000/h or 5000/d";
  const ConfigMap fields(value, kKeys);
  Rate rate{1, std::chrono::seconds(1)};
  if (const auto field = fields.Require("rate", kRates)) {
    rate = field->Parsed(ParseRate, kRates).value_or(rate);
    if (rate.count > kMaxRate) {
      field->ReportFound(fmt::format("is at most {}/{}; for more, say it per a shorter time",
                                     kMaxRate, FormatDuration(rate.period).substr(1)));
    }
  }
  TokenBucket limit{.rate = rate.count, .period = rate.period};
  limit.burst = TokenBucket::DefaultBurst(rate.count, rate.period);
  if (const auto burst = fields.Find("burst")) {
    limit.burst =
        burst->Integer(1, kMaxDebt / rate.period.count(),
                       fmt::format(" with a rate in /{}", FormatDuration(rate.period).substr(1)));
  }
  if (const auto initial = fields.Find("initial")) {
    limit.starts_empty = initial->OneOf<bool>({{"full", false}, {"empty", true}});
  }
  return limit;
}

struct Syntax {
  Algorithm algorithm;
  Limit (*parse)(const ConfigValue& value);  // null: known, but not available yet
};

constexpr std::array<Syntax, 6> kSyntax{{
    {Algorithm::kFixedWindow, ParseFixedWindow},
    {Algorithm::kSlidingLog, ParseSlidingLog},
    {Algorithm::kSlidingWindow, nullptr},
    {Algorithm::kTokenBucket, ParseTokenBucket},
    {Algorithm::kLeakyBucket, nullptr},
    {Algorithm::kConcurrency, nullptr},
}};

std::vector<std::string_view> AvailableAlgorithms() {
  std::vector<std::string_view> names;
  for (const Syntax& syntax : kSyntax) {
    if (syntax.parse != nullptr) names.push_back(ToString(syntax.algorithm));
  }
  return names;
}

void ReportAlgorithm(const ConfigValue& algorithm, bool is_known) {
  const auto names = AvailableAlgorithms();
  const std::string allowed = fmt::format("are {}", fmt::join(names, ", "));
  if (is_known) {
    algorithm.Report(fmt::format("found \"{}\", which is not available in this version; allowed {}",
                                 algorithm.node().text, allowed));
  } else {
    algorithm.ReportFound(allowed + DidYouMean(algorithm.node().text, names));
  }
}

}  // namespace

Limit ParseLimit(const ConfigValue& value) {
  if (value.node().kind != YamlNode::Kind::kMap) {
    value.ReportFound("is a map such as {algorithm: token_bucket, rate: 10/s}");
    return {};
  }
  const YamlNode* name = value.node().Find("algorithm");
  if (name == nullptr) {
    value.Report(fmt::format("the key algorithm is missing; allowed are {}",
                             fmt::join(AvailableAlgorithms(), ", ")));
    return {};
  }
  const auto syntax = std::find_if(kSyntax.begin(), kSyntax.end(), [&](const Syntax& candidate) {
    return name->kind == YamlNode::Kind::kScalar && ToString(candidate.algorithm) == name->text;
  });
  if (syntax != kSyntax.end() && syntax->parse != nullptr) return syntax->parse(value);
  ReportAlgorithm(value.At("algorithm", *name), syntax != kSyntax.end());
  return {};
}

}  // namespace sluice
