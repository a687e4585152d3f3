#include "base/json.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(JsonString, AnyBytes_BecomeOneJsonString) {
  using namespace std::string_literals;
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
