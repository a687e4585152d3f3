// Sets of rules that a control plane offers to a RuleReloader, beside rule files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/notification.h"
#include "config/yaml_reader.h"
#include "tests/app/rule_reloader_fixture.h"

namespace sluice::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A control plane's set of rules. It has one rule, which counts by `key`.
envoy::RuleResources ResourcesOf(const std::string& version, const std::string& key) {
  Diagnostics errors;
  YamlNode root = ReadYaml("",
                           "domain: edge\ndescriptors: [{key: '" + key +
                               "', rate_limit: {unit: hour, requests_per_unit: 5}}]",
                           {}, errors);
  return {.id = {.version = version, .fingerprint = key, .resources = 1},
          .documents = {{.name = "resources[0]", .root = std::move(root)}}};
}

class OfferedRulesTest : public RuleReloaderTest {
 protected:
  // Offers the set and waits until it is in force or refused. Returns the mistakes.
  std::vector<std::string> Offer(envoy::RuleResources set) {
    Notification done;
    std::vector<std::string> mistakes;
    reloader_->Offer(std::move(set), [&](const auto& found) {
      mistakes = found;
      done.Notify();
    });
    done.Wait();
    return mistakes;
  }
};

TEST_F(OfferedRulesTest, SetsOfAControlPlane_AreInForceBesideFiles_EmptySetIsValid) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  EXPECT_THAT(Offer(ResourcesOf("1", "user")), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("a", "user", "(override)"));
  EXPECT_THAT(Offer(ResourcesOf("2", "team")), IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("a", "team", "(override)"));
  EXPECT_THAT(Offer({.id = {.version = "3", .fingerprint = "", .resources = 0}, .documents = {}}),
              IsEmpty());
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(OfferedRulesTest, BadSet_IsRefused_LastGoodSetStaysEvenIfFilesChange) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  EXPECT_THAT(Offer(ResourcesOf("1", "user")), IsEmpty());
  EXPECT_THAT(Offer(ResourcesOf("2", "")), ElementsAre(HasSubstr("descriptors[0].key")));
  EXPECT_THAT(Names(), ElementsAre("a", "user", "(override)"));
  Put(RuleNamed("b"));
  EXPECT_TRUE(WaitForRules({"b", "user", "(override)"}));
}

// If the good set were refused, it would be lost, because a control plane does not send a refused
// set again.
TEST_F(OfferedRulesTest, FilesHaveMistakes_GoodSetWaitsUntilTheyAreFixed) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  EXPECT_THAT(Offer(ResourcesOf("1", "user")), IsEmpty());
  Put("domain: shop\nrules:\n  - {nam: c}\n");
  std::atomic<int> answers = 0;
  reloader_->Offer(ResourcesOf("2", "team"), [&](const auto& mistakes) {
    EXPECT_THAT(mistakes, IsEmpty());
    ++answers;
  });
  EXPECT_FALSE(reloader_->Reload().applied);
  EXPECT_EQ(answers, 0);
  EXPECT_THAT(Names(), ElementsAre("a", "user", "(override)"));
  Put(RuleNamed("b"));
  EXPECT_TRUE(WaitForRules({"b", "team", "(override)"}));
  EXPECT_TRUE(reloader_->Reload().unchanged);
  EXPECT_EQ(answers, 1);
}

TEST_F(OfferedRulesTest, FilesAndSetHaveMistakes_SetIsRefused_FilesAreReadWhenFixed) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  EXPECT_THAT(Offer(ResourcesOf("1", "user")), IsEmpty());
  Put("domain: shop\nrules:\n  - {nam: c}\n");
  EXPECT_THAT(Offer(ResourcesOf("2", "")), Contains(HasSubstr("descriptors[0].key")));
  Put(RuleNamed("b"));
  EXPECT_TRUE(WaitForRules({"b", "user", "(override)"}));
}

// The set waits until the files are fixed. Then it conflicts with them: both are for the domain
// edge.
TEST_F(OfferedRulesTest, WaitingSetConflictsWithTheFixedFiles_SetIsRefused_FilesAreInForce) {
  dir_.Write("rules/a.yaml", RuleNamed("a"));
  Start(dir_.path() / "rules");
  Put("domain: shop\nrules:\n  - {nam: c}\n");
  Notification refused;
  reloader_->Offer(ResourcesOf("2", "team"), [&](const auto& mistakes) {
    EXPECT_THAT(mistakes, Not(IsEmpty()));
    refused.Notify();
  });
  EXPECT_FALSE(reloader_->Reload().applied);
  Put("domain: edge\nrules:\n  - {name: e, limits: [{algorithm: fixed_window, limit: 5, window: "
      "1h}]}\n");
  EXPECT_TRUE(WaitForRules({"e"}));
  refused.Wait();
}

}  // namespace
}  // namespace sluice::test
