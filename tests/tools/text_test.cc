#include "tools/text.h"

#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace sluice::tools {
namespace {

TEST(HumanDuration, Durations_AreRoundedUp) {
  constexpr std::int64_t kSecond = 1'000'000;
  const struct {
    std::int64_t us;
    const char* text;
  } kRows[] = {
      {0, "0 us"},
      {1, "1 us"},
      {999, "999 us"},
      {1000, "1 ms"},
      {1001, "1.01 ms"},
      {1250, "1.25 ms"},
      {9999, "10 ms"},
      {84'300, "84.3 ms"},
      {84'301, "84.4 ms"},
      {85'000, "85 ms"},
      {998'001, "999 ms"},
      {999'001, "1 s"},
      {1'200'000, "1.2 s"},
      {59 * kSecond, "59 s"},
      {59 * kSecond + 1, "1 min"},
      {60 * kSecond, "1 min"},
      {125 * kSecond, "2 min 5 s"},
      {3600 * kSecond, "1 h"},
      {(5 * 3600 + 11 * 60 + 1) * kSecond, "5 h 12 min"},
      {86400 * kSecond, "1 d"},
      {(3 * 86400 + 4 * 3600) * kSecond, "3 d 4 h"},
  };
  for (const auto& row : kRows) EXPECT_EQ(HumanDuration(Duration(row.us)), row.text) << row.us;
}

}  // namespace
}  // namespace sluice::tools
