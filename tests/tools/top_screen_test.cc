// The screen of `sluice top`, and what key presses change.
#include "tools/top_screen.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::tools {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr int kWide = 120;

RuleState Rule(const std::string& name, double allowed, double denied) {
  return {.domain = "shop", .rule = name, .rate = {.allowed = allowed, .denied = denied}};
}

FleetState Fleet() {
  FleetState fleet;
  fleet.servers = {{.name = "a:1", .answers = true}, {.name = "b:2", .error = "no route"}};
  fleet.rules = {Rule("aa", 900, 1), Rule("bb", 5, 30), Rule("cc", 7, 2)};
  for (int i = 0; i < 50; ++i) {
    fleet.denied.push_back({.domain = "shop",
                            .rule = "bb",
                            .key = "k",
                            .subject = "user=" + std::to_string(i),
                            .count = 100});
  }
  fleet.used = {{.domain = "shop", .rule = "aa", .digest = "0123456789abcdef", .count = 9}};
  return fleet;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string Pressed(const std::string& keys, const FleetState& fleet = Fleet()) {
  TopView view;
  for (const char key : keys) view.Press(key);
  return TopScreen(fleet, view, 24, kWide);
}

// Returns true if the screen shows the rules in the order of `names`.
bool InOrder(const std::string& screen, const std::vector<std::string>& names) {
  std::vector<std::size_t> at;
  for (const std::string& name : names) at.push_back(screen.find("shop/" + name + " "));
  return std::is_sorted(at.begin(), at.end()) && at.back() != std::string::npos;
}

TEST(TopScreen, FitsTheTerminal) {
  for (const auto& [rows, columns] : {std::pair{24, 80}, {5, 20}, {1, 1}, {60, 200}}) {
    const auto lines = Lines(TopScreen(Fleet(), {}, rows, columns));
    EXPECT_LE(lines.size(), rows);
    EXPECT_THAT(lines, Each(SizeIs(testing::Le(columns))));
  }
}

TEST(TopScreen, ShowsServersRulesAndKeys) {
  const std::string screen = Pressed("");
  EXPECT_THAT(screen, AllOf(StartsWith("2 servers"), HasSubstr("DOWN  no route"),
                            HasSubstr("shop/bb"), HasSubstr("user=0"), HasSubstr("q quit")));
}

TEST(TopScreen, KeyPresses_SortTheRules) {
  EXPECT_TRUE(InOrder(Pressed(""), {"bb", "cc", "aa"}));  // the most denied first
  EXPECT_TRUE(InOrder(Pressed("c"), {"aa", "bb", "cc"}));
  EXPECT_TRUE(InOrder(Pressed("cd"), {"bb", "cc", "aa"}));
  EXPECT_TRUE(InOrder(Pressed("n"), {"aa", "bb", "cc"}));
}

TEST(TopScreen, KeyPressK_SwitchesBetweenMostUsedAndMostDeniedKeys) {
  EXPECT_THAT(Pressed("k"),
              AllOf(HasSubstr("MOST USED"), HasSubstr("#0123456789ab"), Not(HasSubstr("user=1"))));
  EXPECT_THAT(Pressed("kk"), HasSubstr("MOST DENIED"));
}

TEST(TopScreen, Filter_ShowsOnlyMatches) {
  EXPECT_THAT(Pressed("/bb"),
              AllOf(HasSubstr("filter: bb_"), HasSubstr("shop/bb "), Not(HasSubstr("shop/aa "))));
  EXPECT_THAT(Pressed("/q\x7f"
                      "aa\r"),
              AllOf(HasSubstr("filter: aa "), HasSubstr("shop/aa "), Not(HasSubstr("user="))));
  EXPECT_THAT(Pressed("/bb\x1b"), HasSubstr("shop/aa "));
  EXPECT_THAT(Pressed("/100\r"), Not(HasSubstr("user="))) << "100 is only in the counts";
}

TEST(TopScreen, KeyPresses_PauseAndQuit) {
  TopView view;
  view.Press('p');
  EXPECT_TRUE(view.stopped);
  view.Press('/');
  view.Press('q');  // goes to the filter
  EXPECT_FALSE(view.ended);
  view.Press('\r');
  view.Press('q');
  EXPECT_TRUE(view.ended);
}

// The shown texts come from callers (keys) and from servers (names and errors).
TEST(TopScreen, ControlCharacters_AreEscaped) {
  const std::string bad = "\x1b[2J\n\t\x9b\x7f";
  FleetState fleet;
  fleet.servers = {{.name = "a", .error = bad}};
  fleet.rules = {{.domain = bad, .rule = bad}};
  fleet.denied = {{.domain = bad, .rule = bad, .key = bad, .subject = bad, .count = 1, .error = 1},
                  {.digest = bad, .count = 1}};
  TopView view{.filter = ""};
  for (const std::string& text : {TopScreen(fleet, view, 24, 400), TopLines(fleet, view, "now")}) {
    EXPECT_THAT(text, HasSubstr("\\x1b[2J\\x0a"));
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](unsigned char c) {
      return c == '\n' || (c >= ' ' && c < 0x7f);
    })) << text;
  }
}

}  // namespace
}  // namespace sluice::tools
