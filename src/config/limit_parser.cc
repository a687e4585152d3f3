#include "config/limit_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "config/counts_parser.h"
#include "config/scalar_parser.h"
#include "match/counter_key.h"

namespace sluice {
namespace {

constexpr std::string_view kDurations = "is a duration such as 250ms, 10s, 1m, 1h or 1d";

// Sets parameters from the keys of a map. Reports mistakes; a value with a mistake is unusable.
class ParameterReader final : public Parameters {
 public:
  using Keys = std::vector<std::string_view>;

  ParameterReader(const ConfigMap& fields, const ConfigValue& map) : fields_(&fields), map_(&map) {}

  // Reads no values. Only appends the keys of the parameters to `keys`.
  explicit ParameterReader(Keys& keys) : keys_(&keys) {}

  void Number(std::string_view key, std::int64_t& value, const Range& range,
              std::optional<std::int64_t> fallback) override {
    value = fallback.value_or(value);
    const auto field = fallback ? Find(key) : Require(key, "is a whole number");
    if (field) value = field->Integer(range.least, range.most, range.note);
  }

  void Length(std::string_view key, Duration& value, std::optional<Duration> most) override {
    const auto field = Require(key, kDurations);
    const auto text = field ? field->Text(kDurations) : std::nullopt;
    if (!text) return;
    const auto length = ParseDuration(*text);
    if (length && *length <= most.value_or(*length)) {
      value = *length;
    } else if (most) {
      field->ReportFound(fmt::format("are durations from 1ms to {}", FormatDuration(*most)));
    } else {
      field->Report(length.error().message);
    }
  }

  void LengthIfAny(std::string_view key, Duration& value, Duration least, Duration most) override {
    if (const auto field = Find(key)) value = field->Length(least, most).value_or(value);
  }

  void LengthOrMonth(std::string_view key, Duration& value, bool& is_month) override {
    const std::string allowed = fmt::format("{}, or month", kDurations);
    const auto field = Require(key, allowed);
    const auto text = field ? field->Text(allowed) : std::nullopt;
    is_month = text == "month";
    if (!text || is_month) return;
    if (const auto length = ParseDuration(*text)) {
      value = *length;
    } else {
      field->Report(length.error().message + ", or month");
    }
  }

  void Rate(std::string_view key, std::int64_t& count, Duration& period,
            std::int64_t most) override {
    constexpr std::string_view kRates = "is a rate such as 10/s, 600/m, 1000/h or 5000/d";
    const auto field = Require(key, kRates);
    const auto rate = field ? field->Parsed(ParseRate, kRates) : std::nullopt;
    if (!rate) return;
    count = std::min(rate->count, most);
    period = rate->period;
    if (rate->count <= most) return;
    const bool is_shortest = period == std::chrono::seconds(1);
    field->ReportFound(fmt::format("is at most {}{}{}", most, FormatPeriod(period),
                                   is_shortest ? "" : "; for more, use a shorter period"));
  }

  void Percent(std::string_view key, std::int64_t& value, const Range& range,
               std::int64_t fallback) override {
    value = fallback;
    const auto field = Find(key);
    const auto percent =
        field ? field->Parsed(ParsePercent, "is a percentage such as 90%") : std::nullopt;
    if (!percent) return;
    value = std::clamp(*percent, range.least, range.most);
    if (value == *percent) return;
    field->ReportFound(fmt::format("are {}% to {}%", range.least, range.most));
  }

  void Group(std::string_view key, bool& is_given,
             const std::function<void(Parameters&)>& describe) override {
    const auto field = Find(key);
    is_given = field.has_value();
    if (!is_given) return;
    Keys keys;
    ParameterReader list(keys);
    describe(list);
    if (field->node().kind != YamlNode::Kind::kMap) {
      return field->ReportFound(fmt::format("is a map of {}", fmt::join(keys, ", ")));
    }
    const ConfigMap inner(*field, keys);
    ParameterReader reader(inner, *field);
    describe(reader);
  }

  void UtcOffset(std::string_view key, Duration& value) override {
    const auto field = Find(key);
    if (!field) return;
    const auto offset = field->Parsed(ParseUtcOffset, "is an offset such as \"+08:00\"");
    value = offset.value_or(value);
  }

  void Refuse(std::string_view key, std::string_view allowed) override {
    const auto field = fields_ != nullptr ? fields_->Find(key) : std::nullopt;
    if (field) field->ReportFound(allowed);
  }

  void Warn(std::string message) override {
    if (map_ != nullptr) map_->Warn(std::move(message));
  }

 private:
  void Word(std::string_view key, std::size_t& index, std::size_t fallback,
            const std::vector<std::string_view>& words) override {
    const auto field = Find(key);
    index = field ? field->WordOf(words) : fallback;
  }

  std::optional<ConfigValue> Find(std::string_view key) {
    if (fields_ != nullptr) return fields_->Find(key);
    if (std::ranges::find(*keys_, key) == keys_->end()) keys_->push_back(key);
    return std::nullopt;
  }

  std::optional<ConfigValue> Require(std::string_view key, std::string_view allowed) {
    return fields_ != nullptr ? fields_->Require(key, allowed) : Find(key);
  }

  const ConfigMap* fields_ = nullptr;
  const ConfigValue* map_ = nullptr;
  Keys* keys_ = nullptr;
};

std::vector<std::string_view> AlgorithmNames() {
  std::vector<std::string_view> names;
  for (const Limit& limit : EveryAlgorithm::All()) {
    if (names.empty() || names.back() != NameOf(limit)) names.push_back(NameOf(limit));
  }
  return names;
}

// The parameters of the algorithm `name`. If several algorithms have that name, the keys of `value`
// select one of them.
Limit ParseParameters(const ConfigValue& value, std::string_view name) {
  ParameterReader::Keys keys{"algorithm", "name", "counts"};
  ParameterReader list(keys);
  Limit selected;
  for (Limit limit : EveryAlgorithm::All()) {
    if (NameOf(limit) != name) continue;
    const std::string_view key = SelectedBy(limit);
    if (key.empty() || value.node().Find(key) != nullptr) selected = limit;
    Describe(limit, list);
  }
  const ConfigMap fields(value, keys);
  ParameterReader reader(fields, value);
  Describe(selected, reader);
  return selected;
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
  const bool is_known =
      name->kind == YamlNode::Kind::kScalar && std::ranges::find(names, name->text) != names.end();
  if (is_known) return ParseParameters(value, name->text);
  value.At("algorithm", *name).ReportFound(allowed + DidYouMean(name->text, names));
  const std::string_view meant = NearestWord(name->text, names);
  return meant.empty() ? Limit() : ParseParameters(value, meant);
}

}  // namespace

std::vector<RuleLimit> ParseLimitItems(const ConfigValue& list, std::string_view allowed) {
  std::vector<RuleLimit> limits;
  for (const ConfigValue& item : list.Items(allowed)) {
    const std::size_t errors = item.report().errors.size();
    RuleLimit limit = ParseLimit(item);
    const YamlNode& node = item.node();
    if (const YamlNode* const name = node.Find("name")) limit.name = item.At("name", *name).Name();
    if (const YamlNode* const counts = node.Find("counts")) {
      limit.counts = ParseCounts(item.At("counts", *counts));
    }
    const std::string tag = CounterTag(limit);
    const bool is_repeated = std::ranges::any_of(
        limits, [&](const RuleLimit& other) { return CounterTag(other) == tag; });
    if (is_repeated && item.report().errors.size() == errors) {
      item.Report(fmt::format(
          "found a second limit {}; allowed is one, unless each has a different name", tag));
    }
    limits.push_back(std::move(limit));
  }
  return limits;
}

}  // namespace sluice
