#include "replay/time_stamp.h"

#include <charconv>
#include <cstdint>
#include <system_error>

namespace sluice::replay {
namespace {

constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Takes text from the front. After an error, done() stays false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Expect(char c) { failed_ |= !Take(c); }

  unsigned Digits(std::size_t count) {
    unsigned number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      failed_ |= i >= rest_.size() || !IsDigit(rest_[i]);
      if (failed_) return 0;
      number = number * 10 + static_cast<unsigned>(rest_[i] - '0');
    }
    rest_.remove_prefix(count);
    return number;
  }

  unsigned Month() {
    const std::size_t found = kMonths.find(rest_.substr(0, 3));
    failed_ |= rest_.size() < 3 || found == kMonths.npos || found % 3 != 0;
    if (failed_) return 0;
    rest_.remove_prefix(3);
    return static_cast<unsigned>(found / 3 + 1);
  }

  // Takes the digits of a fraction of a second. Digits beyond microseconds are dropped.
  Duration Fraction() {
    std::int64_t micros = 0;
    std::int64_t unit = 100'000;
    for (; !rest_.empty() && IsDigit(rest_.front()); rest_.remove_prefix(1), unit /= 10) {
      micros += (rest_.front() - '0') * unit;
    }
    return Duration(micros);
  }

  // Takes "+01:00", "+0100", "+01", "Z", or nothing.
  std::chrono::minutes Offset() {
    while (Take(' ')) {
    }
    if (rest_.empty() || Take('Z')) return {};
    const bool west = Take('-');
    if (!west) Expect('+');
    const unsigned hours = Digits(2);
    const bool more = Take(':') || !rest_.empty();
    const std::chrono::minutes offset(hours * 60 + (more ? Digits(2) : 0));
    return west ? -offset : offset;
  }

  bool done() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

std::optional<TimeStamp> FinishDate(const std::chrono::year_month_day& day, Scanner& scan) {
  const unsigned hour = scan.Digits(2);
  scan.Expect(':');
  const unsigned minute = scan.Digits(2);
  scan.Expect(':');
  const unsigned second = scan.Digits(2);
  const bool whole = !scan.Take('.') && !scan.Take(',');
  const Duration fraction = whole ? Duration() : scan.Fraction();
  const std::chrono::minutes offset = scan.Offset();
  if (!scan.done() || !day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  const auto clock = std::chrono::hours(hour) + std::chrono::minutes(minute) +
                     std::chrono::seconds(second) - offset;
  return TimeStamp{Time(std::chrono::sys_days(day)) + clock + fraction, whole};
}

// The number of digits tells the unit. Up to 11 digits: seconds; 12 to 14: milliseconds; 15 to 17:
// microseconds; 18 or 19: nanoseconds.
std::optional<TimeStamp> ParseNumber(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (digits <= 11) {
    Scanner scan(text.substr(digits));
    const bool whole = !scan.Take('.');
    const Duration fraction = whole ? Duration() : scan.Fraction();
    if (!scan.done()) return std::nullopt;
    return TimeStamp{Time(std::chrono::seconds(number)) + fraction, whole};
  }
  if (digits != text.size()) return std::nullopt;
  if (digits <= 14) return TimeStamp{Time(std::chrono::milliseconds(number))};
  return TimeStamp{Time(Duration(digits <= 17 ? number : number / 1000))};
}

}  // namespace

std::optional<TimeStamp> ParseTimeStamp(std::string_view text) {
  if (text.size() < 5 || !IsDigit(text[0])) return std::nullopt;
  Scanner scan(text);
  using std::chrono::year, std::chrono::month, std::chrono::day;
  if (text[2] == '/') {
    const day its_day(scan.Digits(2));
    scan.Expect('/');
    const month its_month(scan.Month());
    scan.Expect('/');
    const year its_year(static_cast<int>(scan.Digits(4)));
    scan.Expect(':');
    return FinishDate(its_year / its_month / its_day, scan);
  }
  if (text[4] != '-') return ParseNumber(text);
  const year its_year(static_cast<int>(scan.Digits(4)));
  scan.Expect('-');
  const month its_month(scan.Digits(2));
  scan.Expect('-');
  const day its_day(scan.Digits(2));
  if (!scan.Take('T')) scan.Expect(' ');
  return FinishDate(its_year / its_month / its_day, scan);
}

}  // namespace sluice::replay
