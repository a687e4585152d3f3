// Tests all ways in which the contents of a directory of rules can change.
#include "app/rule_watch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/temp_dir.h"

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

struct Case {
  const char* what;
  std::function<void(const TempDir& dir)> change;
  bool counts = true;
};

// The files before each change:
//
//   plain/a.yaml, plain/notes.txt
//   map/..data → ..1, map/..1/a.yaml, map/a.yaml → ..data/a.yaml (a ConfigMap in Kubernetes)
//
//   current → releases/1, releases/1/a.yaml, releases/2/a.yaml
//
//   linked/a.yaml → ../elsewhere/a.yaml
struct Layout {
  Layout() {
    dir.Write("plain/a.yaml", "");
    dir.Write("plain/notes.txt", "");
    dir.Write("map/..1/a.yaml", "");
    fs::create_directory_symlink("..1", dir.path() / "map/..data");
    fs::create_symlink("..data/a.yaml", dir.path() / "map/a.yaml");
    dir.Write("releases/1/a.yaml", "");
    dir.Write("releases/2/a.yaml", "");
    fs::create_directory_symlink("releases/1", dir.path() / "current");
    dir.Write("elsewhere/a.yaml", "");
    fs::create_directory(dir.path() / "linked");
    fs::create_symlink("../elsewhere/a.yaml", dir.path() / "linked/a.yaml");
  }

  TempDir dir;
};

void Append(const fs::path& file) { std::ofstream(file, std::ios::app) << "x"; }

void ReplaceLink(const fs::path& link, const char* target) {
  const fs::path fresh = link.native() + "_tmp";
  fs::create_symlink(target, fresh);
  fs::rename(fresh, link);
}

void ExpectNoticed(const char* watched, std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    const Layout layout;
    RuleWatch watch(layout.dir.path() / watched);
    ASSERT_TRUE(watch.Renew()) << one.what;
    EXPECT_FALSE(watch.TakeChanges()) << one.what;
    one.change(layout.dir);
    EXPECT_EQ(watch.TakeChanges(), one.counts) << one.what;
    EXPECT_FALSE(watch.TakeChanges()) << one.what << ", twice";
  }
}

TEST(RuleWatchTest, ChangesOfTheDirectory_AreNoticed) {
  ExpectNoticed(
      "plain",
      {
          {"edited in place", [](auto& dir) { Append(dir.path() / "plain/a.yaml"); }},
          {"truncated", [](auto& dir) { fs::resize_file(dir.path() / "plain/a.yaml", 1); }},
          {"renamed over",
           [](auto& dir) { fs::rename(dir.Write("b.txt", ""), dir.path() / "plain/a.yaml"); }},
          {"added", [](auto& dir) { dir.Write("plain/b.yml", ""); }},
          {"removed", [](auto& dir) { fs::remove(dir.path() / "plain/a.yaml"); }},
          {"renamed away",
           [](auto& dir) { fs::rename(dir.path() / "plain/a.yaml", dir.path() / "plain/a.bak"); }},
          {"made unreadable",
           [](auto& dir) { fs::permissions(dir.path() / "plain/a.yaml", fs::perms::none); }},
          {"the directory removed", [](auto& dir) { fs::remove_all(dir.path() / "plain"); }},
          {"the directory renamed",
           [](auto& dir) { fs::rename(dir.path() / "plain", dir.path() / "other"); }},
          {"another file", [](auto& dir) { Append(dir.path() / "plain/notes.txt"); }, false},
          {"an editor's file", [](auto& dir) { dir.Write("plain/.a.yaml.swp", "x"); }, false},
          {"a neighbor of the directory", [](auto& dir) { dir.Write("b.yaml", "x"); }, false},
      });
}

TEST(RuleWatchTest, ChangesOfLinksAndTheirTargets_AreNoticed) {
  ExpectNoticed(
      "map",
      {
          {"..data swapped",
           [](auto& dir) {
             dir.Write("map/..2/a.yaml", "new");
             ReplaceLink(dir.path() / "map/..data", "..2");
           }},
          {"a key added",
           [](auto& dir) { fs::create_symlink("..data/b.yaml", dir.path() / "map/b.yaml"); }},
      });
  ExpectNoticed("map/..data",
                {{"swapped", [](auto& dir) { ReplaceLink(dir.path() / "map/..data", "..2"); }}});
  ExpectNoticed(
      "current",
      {
          {"swapped", [](auto& dir) { ReplaceLink(dir.path() / "current", "releases/2"); }},
          {"target edited", [](auto& dir) { Append(dir.path() / "releases/1/a.yaml"); }},
          {"target renamed",
           [](auto& dir) { fs::rename(dir.path() / "releases/1", dir.path() / "releases/3"); }},
          {"a directory to which no link points",
           [](auto& dir) { Append(dir.path() / "releases/2/a.yaml"); }, false},
      });
  ExpectNoticed(
      "linked",
      {
          {"target edited", [](auto& dir) { Append(dir.path() / "elsewhere/a.yaml"); }},
          {"a neighbor of the target", [](auto& dir) { dir.Write("elsewhere/b.txt", ""); }, false},
      });
}

TEST(RuleWatchTest, MissingDirectory_IsNoticedWhenItAppears) {
  ExpectNoticed("absent/rules",
                {
                    {"its parent appears", [](auto& dir) { dir.Write("absent/rules/a.yaml", ""); }},
                    {"another file", [](auto& dir) { dir.Write("present", ""); }, false},
                });
}

TEST(RuleWatchTest, AfterRenew_WatchesOnlyTheNewTarget) {
  const Layout layout;
  RuleWatch watch(layout.dir.path() / "current");
  ASSERT_TRUE(watch.Renew());
  ReplaceLink(layout.dir.path() / "current", "releases/2");
  EXPECT_TRUE(watch.TakeChanges());
  ASSERT_TRUE(watch.Renew());
  Append(layout.dir.path() / "releases/1/a.yaml");
  EXPECT_FALSE(watch.TakeChanges());
  Append(layout.dir.path() / "releases/2/a.yaml");
  EXPECT_TRUE(watch.TakeChanges());
}

TEST(RuleWatchTest, CircularLinks_AreNotFollowedForever) {
  const TempDir dir;
  fs::create_symlink("b", dir.path() / "a");
  fs::create_symlink("a", dir.path() / "b");
  RuleWatch watch(dir.path() / "a");
  EXPECT_TRUE(watch.Renew());
}

}  // namespace
}  // namespace sluice::test
