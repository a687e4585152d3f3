#include "limiter/limit_text.h"

#include <charconv>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

// Each parameter is one or two whole numbers; durations are in µs, and a month is 0. Pass writes or
// reads one of these numbers.
class Numbers : public Parameters {
 public:
  void Number(std::string_view, std::int64_t& value, const Range& range,
              std::optional<std::int64_t>) override {
    Pass(value, range.least, range.most);
  }
  void Length(std::string_view, Duration& value, std::optional<Duration> most) override {
    Pass(value, kMillisecond, most.value_or(kLongest));
  }
  void LengthOrMonth(std::string_view, Duration& value, bool& is_month) override {
    if (is_month) value = Duration::zero();
    Pass(value, Duration::zero(), kLongest);
    is_month = value == Duration::zero();
  }
  void Rate(std::string_view, std::int64_t& count, Duration& period, std::int64_t most) override {
    Pass(count, 1, most);
    Pass(period, kSecond, kLongest);
  }
  void Percent(std::string_view, std::int64_t& value, const Range& range, std::int64_t) override {
    Pass(value, range.least, range.most);
  }
  void Group(std::string_view, bool& is_given,
             const std::function<void(Parameters&)>& describe) override {
    std::int64_t given = is_given ? 1 : 0;
    Pass(given, 0, 1);
    is_given = given == 1;
    if (is_given) describe(*this);
  }
  void UtcOffset(std::string_view, Duration& value) override { Pass(value, -kDay, kDay); }

 private:
  static constexpr Duration kMillisecond = std::chrono::milliseconds(1);
  static constexpr Duration kSecond = std::chrono::seconds(1);
  static constexpr Duration kDay = std::chrono::days(1);
  static constexpr Duration kLongest = std::chrono::days(3650);  // the maximum in rules

  void Word(std::string_view, std::size_t& index, std::size_t,
            const std::vector<std::string_view>& words) override {
    auto number = static_cast<std::int64_t>(index);
    Pass(number, 0, static_cast<std::int64_t>(words.size()) - 1);
    index = static_cast<std::size_t>(number);
  }
  void Pass(Duration& value, Duration least, Duration most) {
    Duration::rep number = value.count();
    Pass(number, least.count(), most.count());
    value = Duration(number);
  }
  virtual void Pass(std::int64_t& value, std::int64_t least, std::int64_t most) = 0;
};

class Writer final : public Numbers {
 public:
  explicit Writer(std::string& out) : out_(out) {}

 private:
  void Pass(std::int64_t& value, std::int64_t, std::int64_t) override {
    fmt::format_to(std::back_inserter(out_), ",{}", value);
  }

  std::string& out_;
};

class Reader final : public Numbers {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  // Whether every parameter was present and allowed, and nothing else followed.
  bool ok() const { return ok_ && rest_.empty(); }

 private:
  // Sets `value` to `least` if there is no allowed number.
  void Pass(std::int64_t& value, std::int64_t least, std::int64_t most) override {
    const bool is_next = rest_.starts_with(',');
    if (is_next) rest_.remove_prefix(1);
    value = least;
    const auto parsed = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    ok_ &= is_next && parsed.ec == std::errc() && value >= least && value <= most;
    if (!ok_) {
      value = least;
      return;
    }
    rest_.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest_.data()));
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

void AppendLimit(const Limit& limit, std::string& out) {
  out += static_cast<char>('0' + limit.index());
  Limit described = limit;
  Writer writer(out);
  Describe(described, writer);
}

std::optional<Limit> ParseLimitText(std::string_view text) {
  static const std::vector<Limit> kAll = EveryAlgorithm::All();
  const std::size_t index = text.empty() ? kAll.size() : static_cast<std::size_t>(text[0] - '0');
  if (index >= kAll.size()) return std::nullopt;
  Limit limit = kAll[index];
  Reader reader(text.substr(1));
  Describe(limit, reader);
  if (!reader.ok()) return std::nullopt;
  return limit;
}

}  // namespace sluice
