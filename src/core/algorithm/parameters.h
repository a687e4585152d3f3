// The parameters of an algorithm in rule files. Each algorithm has one function, Describe, that
// passes them all to a Parameters. For example, one Parameters sets them from YAML
// (config/limit_parser.cc), another writes them as YAML (config/rule_yaml.cc). So keys, ranges and
// defaults are written once, in the algorithm's header.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sluice {

class Parameters {
 public:
  // The values that a number may have. `note` is added to the error message for other values.
  struct Range {
    std::int64_t least = 1;
    std::int64_t most = 1;
    std::string note = {};
  };

  virtual ~Parameters() = default;

  // A whole number; required, unless it has a `fallback`.
  virtual void Number(std::string_view key, std::int64_t& value, const Range& range,
                      std::optional<std::int64_t> fallback = std::nullopt) = 0;

  // A duration up to `most`, such as 10s; required.
  virtual void Length(std::string_view key, Duration& value,
                      std::optional<Duration> most = std::nullopt) = 0;

  // A duration from `least` to `most`; zero if absent. Such a parameter does not change the state
  // of counters.
  virtual void LengthIfAny(std::string_view /*key*/, Duration& /*value*/, Duration /*least*/,
                           Duration /*most*/) {}

  // A duration or the word "month"; required.
  virtual void LengthOrMonth(std::string_view key, Duration& value, bool& is_month) = 0;

  // Units per second, minute, hour or day, such as 10/s; required.
  virtual void Rate(std::string_view key, std::int64_t& count, Duration& period,
                    std::int64_t most) = 0;

  // A whole number of percent, such as 90%; `fallback` if absent.
  virtual void Percent(std::string_view key, std::int64_t& value, const Range& range,
                       std::int64_t fallback) = 0;

  // A map of further parameters, which `describe` passes to its argument. `is_given`: whether the
  // map is present.
  virtual void Group(std::string_view key, bool& is_given,
                     const std::function<void(Parameters&)>& describe) = 0;

  // Local time minus UTC; zero if absent.
  virtual void UtcOffset(std::string_view key, Duration& value) = 0;

  // One of a few words.
  template <typename T>
  void Choice(std::string_view key, T& value, T fallback,
              std::initializer_list<std::pair<std::string_view, T>> choices) {
    std::vector<std::string_view> words;
    for (const auto& choice : choices) words.push_back(choice.first);
    const auto position = [&](T wanted) {
      const auto found =
          std::ranges::find(choices, wanted, [](const auto& it) { return it.second; });
      return static_cast<std::size_t>(found - choices.begin());
    };
    std::size_t index = position(value);
    Word(key, index, position(fallback), words);
    value = (choices.begin() + index)->second;
  }
  void Flag(std::string_view key, bool& value, bool fallback) {
    Choice(key, value, fallback, {{"true", true}, {"false", false}});
  }

  // Reports `key` if it is given; `allowed` is the end of the message: what is allowed, or when the
  // key is allowed.
  virtual void Refuse(std::string_view /*key*/, std::string_view /*allowed*/) {}

  // Warns that the parameters are allowed, but probably a mistake.
  virtual void Warn(std::string /*message*/) {}

 private:
  // `index`: the position in `words`.
  virtual void Word(std::string_view key, std::size_t& index, std::size_t fallback,
                    const std::vector<std::string_view>& words) = 0;
};

}  // namespace sluice
