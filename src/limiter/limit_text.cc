#include "limiter/limit_text.h"

#include <charconv>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

namespace sluice {
namespace {

// Each parameter is one or two whole numbers; durations are in µs, and a month is 0.
class Writer final : public Parameters {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void Number(std::string_view, std::int64_t& value, const Range&,
              std::optional<std::int64_t>) override {
    Append(value);
  }
  void Length(std::string_view, Duration& value, std::optional<Duration>) override {
    Append(value.count());
  }
  void LengthOrMonth(std::string_view, Duration& value, bool& is_month) override {
    Append(is_month ? 0 : value.count());
  }
  void Rate(std::string_view, std::int64_t& count, Duration& period, std::int64_t) override {
    Append(count);
    Append(period.count());
  }
  void Percent(std::string_view, std::int64_t& value, const Range&, std::int64_t) override {
    Append(value);
  }
  void Group(std::string_view, bool& is_given,
             const std::function<void(Parameters&)>& describe) override {
    Append(is_given ? 1 : 0);
    if (is_given) describe(*this);
  }
  void UtcOffset(std::string_view, Duration& value) override { Append(value.count()); }

 private:
  void Word(std::string_view, std::size_t& index, std::size_t,
            const std::vector<std::string_view>&) override {
    Append(static_cast<std::int64_t>(index));
  }
  void Append(std::int64_t value) { fmt::format_to(std::back_inserter(out_), ",{}", value); }

  std::string& out_;
};

class Reader final : public Parameters {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  // Whether every parameter was present and allowed, and nothing else followed.
  bool ok() const { return ok_ && rest_.empty(); }

  void Number(std::string_view, std::int64_t& value, const Range& range,
              std::optional<std::int64_t>) override {
    value = Read(range.least, range.most);
  }
  void Length(std::string_view, Duration& value, std::optional<Duration> most) override {
    value = Duration(Read(kMillisecond, most.value_or(kLongest).count()));
  }
  void LengthOrMonth(std::string_view, Duration& value, bool& is_month) override {
    value = Duration(Read(0, kLongest.count()));
    is_month = value == Duration::zero();
  }
  void Rate(std::string_view, std::int64_t& count, Duration& period, std::int64_t most) override {
    count = Read(1, most);
    period = Duration(Read(kSecond, kLongest.count()));
  }
  void Percent(std::string_view, std::int64_t& value, const Range& range, std::int64_t) override {
    value = Read(range.least, range.most);
  }
  void Group(std::string_view, bool& is_given,
             const std::function<void(Parameters&)>& describe) override {
    is_given = Read(0, 1) == 1;
    if (is_given) describe(*this);
  }
  void UtcOffset(std::string_view, Duration& value) override {
    constexpr std::int64_t kDay = Duration(std::chrono::days(1)).count();
    value = Duration(Read(-kDay, kDay));
  }

 private:
  static constexpr std::int64_t kMillisecond = 1'000;
  static constexpr std::int64_t kSecond = 1'000'000;
  static constexpr Duration kLongest = std::chrono::days(3650);  // the maximum in rules

  void Word(std::string_view, std::size_t& index, std::size_t,
            const std::vector<std::string_view>& words) override {
    index = static_cast<std::size_t>(Read(0, static_cast<std::int64_t>(words.size()) - 1));
  }

  // Returns `least` if there is no allowed number.
  std::int64_t Read(std::int64_t least, std::int64_t most) {
    std::int64_t value = least;
    const bool is_next = rest_.starts_with(',');
    if (is_next) rest_.remove_prefix(1);
    const auto parsed = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    ok_ &= is_next && parsed.ec == std::errc() && value >= least && value <= most;
    if (!ok_) return least;
    rest_.remove_prefix(static_cast<std::size_t>(parsed.ptr - rest_.data()));
    return value;
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
