#include "base/secret.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

TEST(IsSecret, OnlyTheWholeSecret_Matches) {
  EXPECT_TRUE(IsSecret("open sesame", "open sesame"));
  for (const char* given : {"", "open", "open sesamf", "open sesame ", "Open sesame"}) {
    EXPECT_FALSE(IsSecret(given, "open sesame")) << given;
  }
}

TEST(BearerToken, IsTheTextAfterTheScheme) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("bEARER abc "), "abc ");
  for (const char* given : {"", "Bearer", "Bearer ", "Basic abc", "Bearerabc", "abc"}) {
    EXPECT_EQ(BearerToken(given), std::nullopt) << given;
  }
  EXPECT_EQ(BearerToken(std::nullopt), std::nullopt);
}

TEST(ReadSecretsFile, OnePerLine_WithoutTrailingSpaces) {
  const test::TempDir dir;
  EXPECT_EQ(*ReadSecretFile(dir.Write("one", "abc \r\n\n")), "abc");
  EXPECT_EQ(*ReadSecretsFile(dir.Write("two", "abc\n\ndef")),
            (std::vector<std::string>{"abc", "def"}));
  EXPECT_FALSE(ReadSecretFile(dir.path() / "two")) << "the file has two secrets";
  for (const char* text : {"", "\n", "a b\n", " a", "abc\nd\x01", "\xC3\xA4"}) {
    const auto read = ReadSecretsFile(dir.Write("bad", text));
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message,
              (dir.path() / "bad").string() +
                  ": found no secret, or an invalid one; allowed are printable ASCII characters "
                  "except spaces");
  }
  EXPECT_FALSE(ReadSecretsFile("/no/such"));
}

TEST(Secret, Set_ReturnsTrueOnlyIfTheValueChanges) {
  Secret secret("a");
  EXPECT_TRUE(secret.Set("b"));
  EXPECT_FALSE(secret.Set("b"));
  EXPECT_EQ(secret.Get(), "b");
}

}  // namespace
}  // namespace sluice
