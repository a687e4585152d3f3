#include "base/log.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

// What `write` adds to the log.
template <typename Write>
std::string Logged(const Write& write) {
  testing::internal::CaptureStderr();
  write();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, AsJson_IsOneObjectALineWhateverTheMessage) {
  ASSERT_TRUE(SetUpLog("info", LogFormat::kJson));
  const std::string line = Logged([] { spdlog::warn("a \"b\"\nc \\ {}", "%v"); });
  const std::string_view end = R"("level":"warning","message":"a \"b\"\u000ac \\ %v"})"
                               "\n";
  EXPECT_TRUE(line.starts_with(R"({"time":"20)")) << line;
  EXPECT_TRUE(line.ends_with(end)) << line;
}

TEST(Log, LevelSetLater_HoldsFromTheNextLineOn) {
  ASSERT_TRUE(SetUpLog("warn"));
  EXPECT_EQ(Logged([] { spdlog::debug("hidden"); }), "");
  ASSERT_TRUE(SetLogLevel("debug"));
  EXPECT_NE(Logged([] { spdlog::debug("shown"); }).find(" debug shown\n"), std::string::npos);
  EXPECT_FALSE(SetLogLevel("loud"));
  EXPECT_NE(Logged([] { spdlog::debug("shown"); }), "");
}

}  // namespace
}  // namespace sluice
