#include "base/json.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(JsonString, AnyBytes_BecomeOneStringOfJson) {
  using namespace std::string_literals;
  const struct {
    std::string text;
    std::string json;
  } rows[] = {
      {"", R"("")"},
      {"a\"b\\c", R"("a\"b\\c")"},
      {"a\n\r\t\0\x1f\x7f"s, R"("a\u000a\u000d\u0009\u0000\u001f\u007f")"},
      {"ä漢𝄞", "\"ä漢𝄞\""},
      {"a\xff\xc3", R"("a\ufffd\ufffd")"},
      {"\xe6\xbc", R"("\ufffd\ufffd")"},
      {"\xc3\"", R"("\ufffd\"")"},
      {"\xed\xa0\x80", R"("\ufffd\ufffd\ufffd")"},
  };
  for (const auto& row : rows) EXPECT_EQ(JsonString(row.text), row.json);
}

}  // namespace
}  // namespace sluice
