// A limiter gets new rules when the rule files change.
#include "app/rule_reloader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "tests/app/rule_reloader_fixture.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// RuleWatch's test covers more ways in which a directory can change.
TEST_F(RuleReloaderTest, FilesChange_NewRulesAreActive) {
  struct Case {
    const char* what;
    std::function<void(const TempDir&)> change;
    std::vector<std::string> names;
  };
  const Case cases[] = {
      {"edited in place", [](auto& dir) { dir.Write("rules/a.yaml", RuleNamed("b")); }, {"b"}},
      {"renamed over",
       [](auto& dir) {
         fs::rename(dir.Write("b.yaml", RuleNamed("b")), dir.path() / "rules/a.yaml");
       },
       {"b"}},
      {"added",
       [](auto& dir) {
         dir.Write("rules/b.yaml", "domain: bar\nrules:\n- {name: b, limits: blocked}");
       },
       {"a", "b"}},
      {"removed", [](auto& dir) { fs::remove(dir.path() / "rules/z.yaml"); }, {"a"}},
      {"the directory replaced",
       [](auto& dir) {
         dir.Write("new/a.yaml", RuleNamed("b"));
         fs::rename(dir.path() / "rules", dir.path() / "old");
         fs::rename(dir.path() / "new", dir.path() / "rules");
       },
       {"b"}},
      {"its link swapped",
       [](auto& dir) {
         dir.Write("new/a.yaml", RuleNamed("b"));
         fs::rename(dir.path() / "rules", dir.path() / "old");
         fs::create_directory_symlink("new", dir.path() / "rules");
       },
       {"b"}},
  };
  for (const Case& one : cases) {
    const TempDir dir;
    dir.Write("rules/a.yaml", RuleNamed("a"));
    if (one.what == std::string("removed")) {
      dir.Write("rules/z.yaml", "domain: zoo\nrules:\n- {name: z, limits: blocked}");
    }
    Start(dir.path() / "rules");
    one.change(dir);
    EXPECT_TRUE(WaitForRules(one.names)) << one.what << ": " << ::testing::PrintToString(Names());
    reloader_.reset();
  }
}

TEST_F(RuleReloaderTest, ConfigMapSwappedTwice_NewRulesAreActive) {
  dir_.Write("map/..1/a.yaml", RuleNamed("v1"));
  fs::create_directory_symlink("..1", dir_.path() / "map/..data");
  fs::create_symlink("..data/a.yaml", dir_.path() / "map/a.yaml");
  Start(dir_.path() / "map");
  for (const std::string version : {"2", "3"}) {
    dir_.Write("map/.." + version + "/a.yaml", RuleNamed("v" + version));
    fs::create_directory_symlink(".." + version, dir_.path() / "map/..data_tmp");
    fs::rename(dir_.path() / "map/..data_tmp", dir_.path() / "map/..data");
    EXPECT_TRUE(WaitForRules({"v" + version}));
  }
}

TEST_F(RuleReloaderTest, ChangeBetweenReadingAndWatching_NewRulesAreActive) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  RuleReading first = IndexRules({.own = ReadRuleFiles(dir_.path() / "rules"), .envoy = {}});
  Put(RuleNamed("b"));
  reloader_.emplace(RuleReloader::Dependencies{limiter_, metrics_, clock_},
                    RuleReloader::Options{.sources = {.directory = dir_.path() / "rules"}},
                    std::move(first));
  EXPECT_TRUE(WaitForRules({"b"}));
}

TEST_F(RuleReloaderTest, Reload_ReturnsErrorsAndTheNumberOfRulesInForce) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  const Time start = clock_.Now();

  clock_.Advance(std::chrono::seconds(1));
  ReloadResult result = reloader_->Reload();
  EXPECT_TRUE(result.applied) << "nothing has changed";
  EXPECT_EQ(result.loaded_at, start);

  Put(RuleNamed("b"));
  result = reloader_->Reload();
  EXPECT_TRUE(result.applied);
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_EQ(result.rules, 1u);
  EXPECT_EQ(result.loaded_at, clock_.Now());
  EXPECT_THAT(Names(), ElementsAre("b"));

  Put("domain: shop\nrules:\n  - {nam: c}\n  - {name: d}\n");
  clock_.Advance(std::chrono::seconds(1));
  result = reloader_->Reload();
  EXPECT_FALSE(result.applied);
  EXPECT_THAT(result.errors, ElementsAre(HasSubstr("a.yaml:3:5: rules[0].limits: is missing"),
                                         HasSubstr("a.yaml:3:6: rules[0].nam: unknown key"),
                                         HasSubstr("a.yaml:4:5: rules[1].limits: is missing")));
  EXPECT_EQ(result.rules, 1u);
  EXPECT_EQ(result.loaded_at, start + std::chrono::seconds(1));
  EXPECT_THAT(Names(), ElementsAre("b"));
}

TEST_F(RuleReloaderTest, Fingerprint_IsEqualForEqualFiles) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  const double before = Metric("sluice_rules_fingerprint");
  EXPECT_GT(before, 0);
  Put(RuleNamed("a", "limit: 6, window: 1h"));
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Metric("sluice_rules_fingerprint") != before; }));
  EXPECT_EQ(Metric("sluice_rules_loaded"), 1);
  Put(RuleNamed("a"));
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Metric("sluice_rules_fingerprint") == before; }));
}

TEST_F(RuleReloaderTest, BrokenSet_OldRulesStay_EveryMistakeIsLoggedOnce) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  const auto old = limiter_.rules();
  EXPECT_EQ(Metric("sluice_rules_last_reload_success"), 1);
  Put("domain: shop\nrules:\n  - {name: a, limits: none}\n  - {name: b, limits: nothing}\n");
  ASSERT_TRUE(
      WaitForLines("error rules: refused for 2 mistakes; until the new rules are fixed, the old "
                   "rules stay in force (1)"));
  EXPECT_TRUE(WaitForLines("a.yaml:4:23: rules[1].limits"));
  EXPECT_EQ(limiter_.rules(), old);
  EXPECT_EQ(Metric("sluice_rules_last_reload_success"), 0);
  EXPECT_EQ(Metric("sluice_rules_loaded"), 1);

  dir_.Write("rules/b.yaml", "domain: bar\nrules: []\n");
  EXPECT_TRUE(WaitForLines("debug rules: mistakes: 2, as before"));
  EXPECT_EQ(log_.Lines("error").size(), 3u);

  clock_.Advance(std::chrono::seconds(5));
  Put(RuleNamed("a"));
  EXPECT_TRUE(WaitForLines("info rules: the mistakes are fixed"));
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Metric("sluice_rules_last_reload_success") == 1; }));
  EXPECT_TRUE(WaitUntil(
      kTimeout, [&] { return Metric("sluice_rules_last_reload_timestamp_seconds") == 1'000'005; }));
}

TEST_F(RuleReloaderTest, DirectorySuddenlyEmpty_OldRulesStay) {
  const std::function<void()> changes[] = {
      [&] { fs::remove(dir_.path() / "rules/a.yaml"); },
      [&] { Put("domain: shop\nrules: []\n"); },
      [&] { fs::remove_all(dir_.path() / "rules"); },
  };
  for (const auto& change : changes) {
    dir_.Write("rules/a.yaml", RuleNamed("a"));
    Start(dir_.path() / "rules");
    const std::size_t errors = log_.Lines("error rules: refused for 1 mistake").size();
    change();
    EXPECT_TRUE(WaitForLines("error rules: refused for 1 mistake", errors + 1));
    EXPECT_THAT(Names(), ElementsAre("a"));
    EXPECT_EQ(Metric("sluice_rules_last_reload_success"), 0);
    reloader_.reset();
  }
}

TEST_F(RuleReloaderTest, DirectoryEmptyFromTheStart_FirstRulesAreApplied) {
  fs::create_directory(dir_.path() / "rules");
  Start(dir_.path() / "rules");
  EXPECT_TRUE(reloader_->Reload().applied);
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  EXPECT_TRUE(WaitForRules({"a"}));
}

TEST_F(RuleReloaderTest, HalfWrittenFile_CausesNoError) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules", kTimeout);
  const std::string text = RuleNamed("b");
  dir_.Write("rules/a.yaml", text.substr(0, text.size() - 4));
  ASSERT_TRUE(WaitForLines("debug rules: mistakes: 1, reading the files again soon"));
  dir_.Write("rules/a.yaml", text);
  EXPECT_TRUE(WaitForRules({"b"}));
  EXPECT_THAT(log_.Lines("error"), IsEmpty());
  EXPECT_EQ(Metric("sluice_rules_last_reload_success"), 1);
}

TEST_F(RuleReloaderTest, BrokenAndConstantlyChangingFile_IsReported) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules", kTimeout);
  EXPECT_TRUE(WaitUntil(kTimeout, [&] {
    dir_.Write("rules/a.yaml", "domain: shop\nrules: 5\n");
    return !log_.Lines("error").empty();
  }));
}

TEST_F(RuleReloaderTest, ValidSet_DifferenceIsLogged) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  const auto old = limiter_.rules();
  Put(RuleNamed("a"));
  const ReloadResult same = reloader_->Reload();
  EXPECT_TRUE(same.applied && same.unchanged);
  EXPECT_EQ(limiter_.rules(), old) << "equal files do not replace the rules";
  EXPECT_THAT(log_.Lines("info"),
              ElementsAre("info rules: 1 in force", "info rules: 1 in force, unchanged"));

  Put(RuleNamed("b"));
  reloader_->Reload();
  Put(RuleNamed("b", "limit: 7, window: 1h"));
  reloader_->Reload();
  Put("# a comment\n" + RuleNamed("b", "limit: 7, window: 1h"));
  reloader_->Reload();
  std::vector<std::string> changes = log_.Lines("info");
  // If the watch has noticed the change before Reload(), Reload() finds nothing new.
  std::erase(changes, "info rules: 1 in force, unchanged");
  EXPECT_THAT(changes, ElementsAre("info rules: 1 in force",
                                   "info rules: 1 in force, 1 added (shop/b), 1 removed (shop/a)",
                                   "info rules: 1 in force, 1 changed (shop/b)",
                                   "info rules: 1 in force, none changed"));
  EXPECT_THAT(limiter_.rules()->index->rules()[0].rule.location, HasSubstr("a.yaml:4"));
}

TEST_F(RuleReloaderTest, ChangedLimit_KeepsItsCountUnlessTheWindowChanges) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  call_.TakeOne();
  EXPECT_EQ(call_.TakeOne(), 3);
  Put(RuleNamed("a", "limit: 10, window: 1h"));
  ASSERT_TRUE(reloader_->Reload().applied);
  EXPECT_EQ(call_.TakeOne(), 7) << "a raised limit";
  Put(RuleNamed("a", "limit: 10, window: 2h"));
  ASSERT_TRUE(reloader_->Reload().applied);
  EXPECT_EQ(call_.TakeOne(), 9) << "the new window has its own counter";
  Put(RuleNamed("a", "limit: 4, window: 1h"));
  ASSERT_TRUE(reloader_->Reload().applied);
  EXPECT_EQ(call_.TakeOne(), 0) << "the first window's counter, with a lower limit";
}

TEST_F(RuleReloaderTest, ReplacedRules_AreFreedEvenIfThreadsAreIdle) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  call_.TakeOne();
  const std::weak_ptr<const ActiveRules> old = limiter_.rules();
  Put(RuleNamed("b"));
  ASSERT_TRUE(reloader_->Reload().applied);
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return old.expired(); }));
}

std::string EnvoyRuleOf(const std::string& key, const std::string& domain = "envoys") {
  return "domain: " + domain + "\ndescriptors: [{key: " + key + ", rate_limit: {unit: day}}]\n";
}

TEST_F(RuleReloaderTest, EnvoysFilesChange_RulesOfBothKindsAreActive) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  dir_.Write("envoy/team/e", EnvoyRuleOf("k"));
  const std::string own = dir_.path() / "rules";
  const std::string envoys = dir_.path() / "envoy";
  reloader_.emplace(RuleReloader::Dependencies{limiter_, metrics_, clock_},
                    RuleReloader::Options{.sources = {.directory = own, .envoy_directory = envoys},
                                          .settle = milliseconds(20),
                                          .second_look = milliseconds(40)},
                    IndexRules({.own = ReadRuleFiles(own), .envoy = envoy::ReadRuleFiles(envoys)}));
  EXPECT_THAT(Names(), ElementsAre("a", "k", "(override)"));
  EXPECT_NE(limiter_.rules()->index->guide(), nullptr);
  fs::rename(dir_.Write("next", EnvoyRuleOf("l")), dir_.path() / "envoy/team/e");
  EXPECT_TRUE(WaitForRules({"a", "l", "(override)"}));
  Put(RuleNamed("b"));
  EXPECT_TRUE(WaitForRules({"b", "l", "(override)"}));
  dir_.Write("envoy/new/f.yaml", EnvoyRuleOf("m", "more"));
  EXPECT_TRUE(WaitForRules({"b", "m", "(override)", "l", "(override)"}));
  dir_.Write("envoy/new/f.yaml", EnvoyRuleOf("m", "shop"));
  EXPECT_TRUE(
      WaitForLines("envoy/new/f.yaml:1:9: domain: found \"shop\", which also has rules "
                   "in Sluice's format; a domain can have rules of only one format"));
  EXPECT_THAT(Names(), ElementsAre("b", "m", "(override)", "l", "(override)"));
}

// For example, if a volume is unmounted, its directory is empty.
TEST_F(RuleReloaderTest, OneDirectorySuddenlyEmpty_OldRulesOfBothKindsStay) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  dir_.Write("envoy/e.yaml", EnvoyRuleOf("k"));
  const std::string own = dir_.path() / "rules";
  const std::string envoys = dir_.path() / "envoy";
  reloader_.emplace(RuleReloader::Dependencies{limiter_, metrics_, clock_},
                    RuleReloader::Options{.sources = {.directory = own, .envoy_directory = envoys},
                                          .settle = milliseconds(20),
                                          .second_look = milliseconds(40)},
                    IndexRules({.own = ReadRuleFiles(own), .envoy = envoy::ReadRuleFiles(envoys)}));
  fs::rename(dir_.path() / "envoy/e.yaml", dir_.path() / "e.yaml");
  EXPECT_TRUE(WaitForLines("/envoy: found no rules; to remove all rules"));
  EXPECT_THAT(Names(), ElementsAre("a", "k", "(override)"));
  fs::rename(dir_.path() / "e.yaml", dir_.path() / "envoy/e.yaml");
  fs::remove(dir_.path() / "rules/a.yaml");
  EXPECT_TRUE(WaitForLines("/rules: found no rules; to remove all rules"));
  EXPECT_THAT(Names(), ElementsAre("a", "k", "(override)"));
}

TEST_F(RuleReloaderTest, NoDirectory_ReloadReportsIt) {
  reloader_.emplace(RuleReloader::Dependencies{limiter_, metrics_, clock_}, RuleReloader::Options{},
                    IndexRules({}));
  EXPECT_THAT(reloader_->Reload().errors,
              ElementsAre("there is no directory to read: give --rules DIR"));
}

TEST_F(RuleReloaderTest, ConcurrentReloads_AllAreAnswered) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  std::vector<Thread> askers;
  std::atomic<int> applied = 0;
  for (int i = 0; i < 8; ++i) {
    askers.emplace_back("asker", [&] {
      for (int j = 0; j < 20; ++j) applied += reloader_->Reload().applied;
    });
  }
  for (Thread& asker : askers) asker.Join();
  EXPECT_EQ(applied, 160);
}

}  // namespace
}  // namespace sluice::test
