#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using std::string_literals::operator""s;

TEST(ParseNumber, Parses_OnlyIfAllOfTheTextIsANumber) {
  EXPECT_EQ(ParseNumber<int>("-12"), -12);
  EXPECT_EQ(ParseNumber<unsigned>("777", 8), 0777U);
  EXPECT_EQ(ParseNumber<double>("0.5"), 0.5);
  for (const char* const text : {"", " 1", "1 ", "+1", "1x", "0x1", "2147483648"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
}

TEST(Lowercase, ChangesAsciiOnly) { EXPECT_EQ(Lowercase("aBZ_1Ä"), "abz_1Ä"); }

TEST(IsValidUtf8, WellFormedText_IsValid) {
  for (const std::string& text :
       {""s, "plain ASCII of more than eight bytes"s, "a\0b"s, "\x7F"s, "\xC2\x80"s, "\xDF\xBF"s,
        "\xE0\xA0\x80"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s, "\xEF\xBF\xBF"s, "\xF0\x90\x80\x80"s,
        "\xF4\x8F\xBF\xBF"s, "12345678\xC3\xA4"s, "1234567\xC3\xA4 89012345678"s}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
  }
}

TEST(IsValidUtf8, IllFormedText_IsNotValid) {
  for (const std::string& text :
       {"\x80"s, "\xBF"s, "\xC0\x80"s, "\xC1\xBF"s, "\xC2"s, "\xC2 "s, "\xE0\x9F\xBF"s, "\xE2\x82"s,
        "\xED\xA0\x80"s, "\xED\xBF\xBF"s, "\xF0\x8F\xBF\xBF"s, "\xF4\x90\x80\x80"s,
        "\xF5\x80\x80\x80"s, "\xF0\x90\x80"s, "\xF0\x90\x80 "s, "\xFF"s, "\xFE"s, "12345678\xFF"s,
        "1234567890123\xE2\x28\xA1"s}) {
    EXPECT_FALSE(IsValidUtf8(text)) << text;
  }
}

// ASCII is skipped in steps of eight bytes. A cut character is found at any offset in a step.
TEST(IsValidUtf8, CutCharacter_IsNotValid) {
  for (std::size_t before = 0; before < 20; ++before) {
    const std::string text = std::string(before, 'x') + "\xF0\x9F\x98\x80";
    EXPECT_TRUE(IsValidUtf8(text));
    for (std::size_t cut = 1; cut < 4; ++cut) {
      EXPECT_FALSE(IsValidUtf8(text.substr(0, text.size() - cut)));
      EXPECT_FALSE(IsValidUtf8(text.substr(0, text.size() - cut) + std::string(20, 'x')));
    }
  }
}

TEST(JsonString, AnyBytes_BecomeOneJsonString) {
  const struct {
    std::string text;
    std::string json;
  } rows[] = {
      {"", R"("")"},
      {"a\"b\\c", R"("a\"b\\c")"},
      {"a\n\r\t\0\x1f\x7f"s, "\"a\\n\\r\\t\\u0000\\u001f\x7f\""},
      {"ä漢𝄞", "\"ä漢𝄞\""},
      {"a\xff\xc3", "\"a\ufffd\ufffd\""},
      {"\xe6\xbc", "\"\ufffd\""},
      {"\xc3\"", "\"\ufffd\\\"\""},
      {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
  };
  for (const auto& row : rows) EXPECT_EQ(JsonString(row.text), row.json);
}

}  // namespace
}  // namespace sluice
