#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "envoy/rules/rules_loader.h"

namespace sluice::envoy {
namespace {

namespace fs = std::filesystem;

LoadedTrees Parse(const std::vector<std::string>& files, bool merge = false) {
  RuleTexts texts;
  for (const std::string& text : files) {
    texts.files.push_back({fmt::format("{}.yaml", texts.files.size()), text});
  }
  return ParseRules(std::move(texts), merge);
}

std::string Messages(const LoadedTrees& loaded) {
  std::string messages;
  for (const Diagnostic& error : loaded.errors) messages += error.ToString() + "\n";
  return messages;
}

std::string WithLimit(const std::string& limit) {
  return "domain: d\ndescriptors:\n- key: k\n  rate_limit: " + limit + "\n";
}

TEST(RuleFiles, Mistake_IsReportedWithItsPlace) {
  const std::string units = "are second, minute, hour, day, month, year, week";
  struct Row {
    std::string text;
    std::string messages;
  };
  const std::string keys =
      "key, value, rate_limit, descriptors, shadow_mode, quota_mode, detailed_metric, "
      "value_to_metric, share_threshold, metadata";
  const Row rows[] = {
      {"", "0.yaml:1:1: found nothing; allowed is a map of domain, descriptors, all_or_nothing"},
      {"[]", "0.yaml:1:1: found a list; allowed is a map of domain, descriptors, all_or_nothing"},
      {"descriptors: []", "0.yaml:1:1: domain: is missing; allowed is a name of 1 to 255 bytes"},
      {"domain: ''", "0.yaml:1:9: domain: found \"\"; allowed is a name of 1 to 255 bytes"},
      {"domain:", "0.yaml:1:1: domain: is missing; allowed is a name of 1 to 255 bytes"},
      {"domain: [d]", "0.yaml:1:9: domain: found a list; allowed is a name of 1 to 255 bytes"},
      {"domain: d\nrules: []",
       "0.yaml:2:1: rules: unknown key; allowed are domain, descriptors, all_or_nothing"},
      {"domain: d\n[a]: b", "0.yaml:2:1: ?: found a list; allowed is a text as the key"},
      {"domain: d\ndescriptors: x",
       "0.yaml:2:14: descriptors: found \"x\"; allowed is a list of descriptors"},
      {"domain: d\ndescriptors: [x]",
       "0.yaml:2:15: descriptors[0]: found \"x\"; allowed is a map of " + keys},
      {"domain: d\ndescriptors: [{value: v}]",
       "0.yaml:2:15: descriptors[0].key: is missing; allowed is the key of an entry"},
      {"domain: d\ndescriptors: [{key: ''}]",
       "0.yaml:2:21: descriptors[0].key: found \"\"; allowed is the key of an entry"},
      {"domain: d\ndescriptors: [{key: k, value: [v]}]",
       "0.yaml:2:31: descriptors[0].value: found a list; allowed is a text"},
      {"domain: d\ndescriptors: [{key: k, vlaue: v}]",
       "0.yaml:2:24: descriptors[0].vlaue: unknown key; allowed are " + keys +
           " (did you mean \"value\"?)"},
      {"domain: d\ndescriptors:\n- key: k\n- key: k",
       "0.yaml:4:3: descriptors[1]: found the key \"k\" with the value \"\", as on line 3; allowed "
       "only once"},
      {"domain: d\ndescriptors:\n- key: a\n  descriptors:\n  - {key: k, value: v}\n  - {key: k, "
       "value: v}",
       "0.yaml:6:5: descriptors[0].descriptors[1]: found the key \"k\" with the value \"v\", as on "
       "line 5; allowed only once"},
      {"domain: d\ndescriptors: [{key: k, shadow_mode: maybe}]",
       "0.yaml:2:37: descriptors[0].shadow_mode: found \"maybe\"; allowed are true, false"},
      {"domain: d\ndescriptors: [{key: k, quota_mode: 'true'}]",
       "0.yaml:2:36: descriptors[0].quota_mode: found \"true\"; allowed are true, false"},
      {"domain: d\ndescriptors: [{key: k, value: v, share_threshold: true}]",
       "0.yaml:2:51: descriptors[0].share_threshold: needs a value with *"},
      {"domain: d\ndescriptors: [{key: k, metadata: x}]",
       "0.yaml:2:34: descriptors[0].metadata: found \"x\"; allowed is a map"},
      {"domain: d\ndescriptors: [{key: k, metadata: {a: {[x]: 1}}}]",
       "0.yaml:2:39: descriptors[0].metadata.a.?: found a list; allowed is a text as the key"},
      {WithLimit("{requests_per_unit: 1}"),
       "0.yaml:4:15: descriptors[0].rate_limit.unit: is missing; allowed " + units},
      {WithLimit("{unit: fortnight, requests_per_unit: 1}"),
       "0.yaml:4:22: descriptors[0].rate_limit.unit: found \"fortnight\"; allowed " + units},
      {WithLimit("{unit: unknown, requests_per_unit: 1}"),
       "0.yaml:4:22: descriptors[0].rate_limit.unit: found \"unknown\"; allowed " + units},
      {WithLimit("{unlimited: true, unit: day}"),
       "0.yaml:4:39: descriptors[0].rate_limit.unit: found \"day\"; allowed only without "
       "unlimited"},
      {WithLimit("{unit: day, requests_per_unit: -1}"),
       "0.yaml:4:46: descriptors[0].rate_limit.requests_per_unit: found \"-1\"; allowed is a whole "
       "number from 0 to 4294967295, without quotes"},
      {WithLimit("{unit: day, requests_per_unit: \"5\"}"),
       "0.yaml:4:46: descriptors[0].rate_limit.requests_per_unit: found \"5\"; allowed is a whole "
       "number from 0 to 4294967295, without quotes"},
      {WithLimit("{unit: day, requests_per_unit: 0x}"),
       "0.yaml:4:46: descriptors[0].rate_limit.requests_per_unit: found \"0x\"; allowed is a whole "
       "number from 0 to 4294967295, without quotes"},
      {WithLimit("{unit: day, requests_per_unit: 010}"),
       "0.yaml:4:46: descriptors[0].rate_limit.requests_per_unit: found \"010\"; allowed is a "
       "number "
       "that does not begin with 0"},
      {WithLimit("{unit: day, requests_per_unit: 4294967296}"),
       "0.yaml:4:46: descriptors[0].rate_limit.requests_per_unit: found \"4294967296\"; allowed is "
       "a whole number from 0 to 4294967295, without quotes"},
      {WithLimit("{unit: day, replaces: x}"),
       "0.yaml:4:37: descriptors[0].rate_limit.replaces: found \"x\"; allowed is a list of maps "
       "such as {name: other}"},
      {WithLimit("{unit: day, replaces: [{}]}"),
       "0.yaml:4:38: descriptors[0].rate_limit.replaces[0].name: is missing; allowed is the name "
       "of a limit"},
      {WithLimit("{unit: day, replaces: [{name: ''}]}"),
       "0.yaml:4:45: descriptors[0].rate_limit.replaces[0].name: found \"\"; allowed is the name "
       "of a limit"},
      {WithLimit("{unit: day, name: x, replaces: [{name: x}]}"),
       "0.yaml:4:54: descriptors[0].rate_limit.replaces[0].name: found \"x\"; allowed is the name "
       "of another limit"},
      {WithLimit("{unit: day, limits: [{algorithm: token_bucket, rate: 1/s}]}"),
       "0.yaml:4:22: descriptors[0].rate_limit.unit: found \"day\"; allowed only without limits"},
      {WithLimit("{limits: []}"),
       "0.yaml:4:24: descriptors[0].rate_limit.limits: found no limit; allowed is at least one"},
      {WithLimit("{limits: [{algorithm: concurrency, limit: 1, ttl: 1s}]}"),
       "0.yaml:4:25: descriptors[0].rate_limit.limits[0]: found concurrency, which needs leases; "
       "allowed are the other algorithms"},
      {WithLimit("{limits: [{algorithm: token_bucket, rate: 1/s, counts: [cost, tokens]}]}"),
       "0.yaml:4:70: descriptors[0].rate_limit.limits[0].counts: found an amount that descriptors "
       "do "
       "not have; allowed are cost (the hits) and requests"},
      {"domain: d\nall_or_nothing: true\ndescriptors:\n- {key: a, rate_limit: {limits: "
       "[{algorithm: leaky_bucket, rate: 1/s, queue: 1}]}}",
       "0.yaml:4:3: descriptors: the key \"a\" has a leaky_bucket with delay or a token_bucket "
       "with "
       "warmup, which cannot take hits back; with all_or_nothing, only the other limits are "
       "allowed"},
      {"domain: d\nall_or_nothing: true\ndescriptors:\n- key: a\n  descriptors:\n  - {key: b, "
       "rate_limit: {limits: [{algorithm: token_bucket, rate: 1/s, warmup: 1s}]}}",
       "0.yaml:6:5: descriptors: the key \"b\" has a leaky_bucket with delay or a token_bucket "
       "with "
       "warmup, which cannot take hits back; with all_or_nothing, only the other limits are "
       "allowed"},
      {WithLimit("{unit: day, on_store_failure: panic}"),
       "0.yaml:4:45: descriptors[0].rate_limit.on_store_failure: found \"panic\"; allowed are "
       "local, allow, deny, error"},
      {"domain: d\ndescriptors: [",
       "0.yaml:3:1: not YAML: while parsing a flow node: did not find expected node content"},
      {"domain: d\ndescriptors:\n  - key: a\n    value: \"b\n  - key: c",
       "0.yaml:4:12: not YAML: the quote that opens here is not closed: found unexpected end of "
       "stream"},
      {"domain: d\ndomain: e",
       "0.yaml:2:1: domain: found the key a second time; allowed only once"},
      {"domain: !x d", "0.yaml:1:9: found the tag \"!x\"; allowed is YAML without tags"},
      {"domain: d\ndescriptors: &a [*a]",
       "0.yaml:2:18: found an alias inside the node that it refers to"},
      {"domain: d\ndescriptors: [{key: k, <<: x}]",
       "0.yaml:2:24: descriptors[0].<<: unknown key; allowed are " + keys},
      {"domain: d\xFF", "0.yaml:1:1: found bytes that are not UTF-8; allowed is UTF-8 text"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(Messages(Parse({row.text})), row.messages + "\n") << row.text;
  }
}

TEST(RuleFiles, OneDomainInTwoFiles_IsRefusedUnlessMerged) {
  const std::string a = "domain: d\ndescriptors: [{key: a}]";
  const std::string b = "descriptors: [{key: b}]\ndomain: d";
  EXPECT_EQ(Messages(Parse({a, b})),
            "1.yaml:2:9: domain: found \"d\", which 0.yaml has too; allowed is one file per "
            "domain, unless domains are merged\n");
  const LoadedTrees merged = Parse({a, b}, true);
  ASSERT_TRUE(merged.ok()) << Messages(merged);
  ASSERT_EQ(merged.trees.size(), 1u);
  EXPECT_EQ(merged.trees[0].descriptors.size(), 2u);
  EXPECT_EQ(Messages(Parse({a, a}, true)),
            "1.yaml:2:15: descriptors: found the key \"a\" with the value \"\", as in 0.yaml:2; "
            "allowed only once\n");
}

TEST(RuleFiles, WholeGrammar_BecomesATree) {
  const LoadedTrees loaded = Parse({R"(
domain: mongo_cps
all_or_nothing: true
descriptors:
  - key: database
    value: 7
    shadow_mode: True
    quota_mode: yes
    detailed_metric: true
    value_to_metric: true
    metadata: {team: {name: db}, on_call: [a, b]}
    rate_limit:
      unit: WeeK
      requests_per_unit: 500
      name: db
      replaces: [{name: a}, {name: b}]
      on_store_failure: error
    descriptors:
      - {key: open, rate_limit: {unlimited: true}, descriptors: }
      - key: own
        value: x*y
        share_threshold: true
        rate_limit:
          limits:
            - {algorithm: token_bucket, rate: 10/s, burst: 20}
            - {algorithm: sliding_log, limit: 100, window: 1h}
)"});
  ASSERT_TRUE(loaded.ok()) << Messages(loaded);
  const RuleTree& tree = loaded.trees.at(0);
  EXPECT_EQ(tree.domain, "mongo_cps");
  EXPECT_TRUE(tree.all_or_nothing);
  const Descriptor& top = tree.descriptors.at(0);
  EXPECT_EQ(top.key + top.value, "database7");
  EXPECT_TRUE(top.shadow_mode && top.quota_mode && top.detailed_metric && top.value_to_metric);
  EXPECT_NE(top.metadata.Find("on_call"), nullptr);
  EXPECT_EQ(top.rate_limit->unit, Unit::kWeek);
  EXPECT_EQ(top.rate_limit->requests_per_unit, 500u);
  EXPECT_EQ(top.rate_limit->replaces, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(top.rate_limit->on_store_failure, OnStoreFailure::kError);
  EXPECT_TRUE(top.descriptors.at(0).rate_limit->unlimited);
  const Descriptor& own = top.descriptors.at(1);
  EXPECT_TRUE(own.share_threshold);
  ASSERT_EQ(own.rate_limit->limits.size(), 2u);
  EXPECT_EQ(std::get<TokenBucket>(own.rate_limit->limits[0].limit).burst, 20);
}

TEST(RuleFiles, RequestsPerUnit_IsReadAsInEnvoysService) {
  const std::vector<std::pair<std::string, std::uint32_t>> rows = {
      {"0", 0},      {"5", 5},     {"1_000", 1'000}, {"0x10", 16},
      {"0XfF", 255}, {"0o17", 15}, {"0b1_01", 5},    {"4_294_967_295", 4'294'967'295},
  };
  for (const auto& [text, number] : rows) {
    const LoadedTrees loaded = Parse({WithLimit("{unit: day, requests_per_unit: " + text + "}")});
    ASSERT_TRUE(loaded.ok()) << Messages(loaded);
    EXPECT_EQ(loaded.trees.at(0).descriptors.at(0).rate_limit->requests_per_unit, number) << text;
  }
}

TEST(RuleFiles, AnchorsAndAliases_AreExpanded) {
  const LoadedTrees loaded = Parse({R"(
domain: d
descriptors:
  - key: a
    rate_limit: &limit {unit: day, requests_per_unit: 7}
    descriptors: &deeper
      - {key: &name b, rate_limit: *limit}
  - key: *name
    rate_limit: {<<: *limit, requests_per_unit: 8}
    descriptors: *deeper
  - {<<: [{shadow_mode: true, key: x}, {quota_mode: true}], key: c}
)"});
  ASSERT_TRUE(loaded.ok()) << Messages(loaded);
  const std::vector<Descriptor>& top = loaded.trees.at(0).descriptors;
  EXPECT_EQ(top.at(1).key, "b");
  EXPECT_EQ(top.at(1).rate_limit->unit, Unit::kDay);
  EXPECT_EQ(top.at(1).rate_limit->requests_per_unit, 8u);
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(top.at(i).descriptors.at(0).key, "b");
    EXPECT_EQ(top.at(i).descriptors.at(0).rate_limit->requests_per_unit, 7u);
  }
  EXPECT_EQ(top.at(2).key, "c");
  EXPECT_TRUE(top.at(2).shadow_mode && top.at(2).quota_mode);
}

TEST(RuleFiles, AliasesThatExpandTooFar_AreRefused) {
  std::string text = "domain: d\ndescriptors:\n- key: k\n  metadata:\n    a0: &a0 [1, 2]\n";
  for (int i = 1; i < 40; ++i) {
    text += fmt::format("    a{0}: &a{0} [*a{1}, *a{1}, *a{1}]\n", i, i - 1);
  }
  EXPECT_NE(Messages(Parse({text})).find("expand to more than 1000000 values"), std::string::npos);
}

TEST(RuleFiles, Example_Loads) {
  const std::string rules = SLUICE_SOURCE_DIR "/docker/envoy/rules";
  const LoadedTrees loaded = ParseRules(ReadRuleFiles(rules), false);
  EXPECT_EQ(Messages(loaded), "");
  EXPECT_EQ(loaded.trees.size(), 1u);
}

TEST(RuleFiles, Directory_IsReadRecursively_WithoutHiddenFiles) {
  std::string path = (fs::temp_directory_path() / "sluice-envoy-XXXXXX").string();
  ASSERT_NE(mkdtemp(path.data()), nullptr);
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((fs::path(path) / name).parent_path());
    std::ofstream(fs::path(path) / name) << text;
  };
  write("config", "domain: a");
  write("team/deep/b.yaml", "domain: b");
  write(".hidden", "no");
  write("..data/c.yaml", "no");
  const LoadedTrees loaded = ParseRules(ReadRuleFiles(path), false);
  fs::remove_all(path);
  EXPECT_EQ(Messages(loaded), "");
  ASSERT_EQ(loaded.trees.size(), 2u);
  EXPECT_EQ(loaded.trees[0].domain + loaded.trees[1].domain, "ab");
  EXPECT_FALSE(ParseRules(ReadRuleFiles(path), false).ok());
}

}  // namespace
}  // namespace sluice::envoy
