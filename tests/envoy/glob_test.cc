#include "envoy/rules/guide.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace sluice::envoy {
namespace {

TEST(Glob, Star_MatchesAnyText) {
  struct Row {
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Row rows[] = {
      {"a", "a", true},          {"a", "ab", false},        {"*", "", true},
      {"*", "anything", true},   {"a*", "a", true},         {"a*", "abc", true},
      {"a*", "ba", false},       {"*a", "ba", true},        {"*a", "ab", false},
      {"a*a", "a", false},       {"a*a", "aa", true},       {"a*b*c", "a1b2c", true},
      {"a*b*c", "acb", false},   {"a*b*c", "abcbc", true},  {"*ab*ab*", "abab", true},
      {"*ab*ab*", "aba", false}, {"a**b", "ab", true},      {"/v1/*/x", "/v1/a/b/x", true},
      {"*.*", "a.b", true},      {"a*bc*bc", "abc", false}, {"a.c", "abc", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Glob(row.pattern).Matches(row.text), row.matches) << row.pattern << " " << row.text;
  }
}

bool MatchesNaively(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*') {
    return !text.empty() && text.front() == pattern.front() &&
           MatchesNaively(pattern.substr(1), text.substr(1));
  }
  return MatchesNaively(pattern.substr(1), text) ||
         (!text.empty() && MatchesNaively(pattern, text.substr(1)));
}

TEST(Glob, RandomPatterns_AgreeWithDefinition) {
  std::mt19937 random(7);
  const auto word = [&](std::string_view letters, std::size_t most) {
    std::string text(random() % (most + 1), ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string pattern = word("ab*", 6);
    const std::string text = word("ab", 9);
    ASSERT_EQ(Glob(pattern).Matches(text), MatchesNaively(pattern, text)) << pattern << " " << text;
  }
}

}  // namespace
}  // namespace sluice::envoy
