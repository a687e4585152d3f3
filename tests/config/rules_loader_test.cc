#include "config/rules_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

const fs::path kSource = SLUICE_SOURCE_DIR;

std::string ReadFile(const fs::path& path) {
  std::ifstream input(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

std::vector<std::string> Messages(const LoadedRules& loaded) {
  std::vector<std::string> messages;
  for (const Diagnostic& error : loaded.errors) messages.push_back(error.ToString());
  return messages;
}

LoadedRules Parse(std::string text) {
  const RuleFile file{"f.yaml", std::move(text)};
  return ParseRules({.files = {file}});
}

// A directory of files. The destructor removes it.
class RuleDirectory {
 public:
  RuleDirectory() {
    std::string pattern = (fs::temp_directory_path() / "sluice-rules-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~RuleDirectory() { fs::remove_all(path_); }

  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The messages in the lines "# expect: …" at the top of a bad file.
std::vector<std::string> ExpectedMessages(const std::string& text) {
  constexpr std::string_view kMark = "# expect: ";
  std::vector<std::string> expected;
  std::string_view rest = text;
  while (rest.starts_with(kMark)) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    expected.emplace_back(line.substr(kMark.size()));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return expected;
}

TEST(RulesLoader, BadFile_ReportsTheExpectedMessages) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kSource / "tests/config/bad")) {
    files.push_back(entry.path());
  }
  ASSERT_GT(files.size(), 120u);
  for (const fs::path& path : files) {
    const std::string text = ReadFile(path);
    const RuleFile file{path.filename().string(), text};
    const auto messages = Messages(ParseRules({.files = {file}}));
    EXPECT_EQ(messages, ExpectedMessages(text)) << file.name;
    EXPECT_FALSE(messages.empty()) << file.name;
  }
}

TEST(RulesLoader, ShopExample_Loads) {
  const LoadedRules loaded = ParseRules(ReadRuleFiles((kSource / "config/rules").string()));
  EXPECT_THAT(Messages(loaded), IsEmpty());
  ASSERT_EQ(loaded.rules.size(), 1u);
  EXPECT_EQ(loaded.rules[0].name, "shop");
  EXPECT_THAT(loaded.warnings, IsEmpty());
}

// Every ```yaml block of docs/rules.md is a rule file.
TEST(RulesLoader, DocumentationExamples_Load) {
  constexpr std::string_view kOpen = "```yaml\n";
  const std::string text = ReadFile(kSource / "docs/rules.md");
  int examples = 0;
  for (auto at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
    at += kOpen.size();
    const LoadedRules loaded = Parse(text.substr(at, text.find("```", at) - at));
    EXPECT_THAT(Messages(loaded), IsEmpty());
    EXPECT_THAT(loaded.warnings, IsEmpty());
    ++examples;
  }
  EXPECT_GE(examples, 4);
}

TEST(RulesLoader, Counts_AreSortedByName_CostIsTheDefault) {
  const struct {
    std::string counts;
    Counts expected;
  } rows[] = {
      {"cost", {}},
      {"[cost]", {}},
      {"{cost: 1}", {}},
      {"{cost: 2}", {{"cost", 2}}},
      {"requests", {{"requests", 1}}},
      {"[out, in]", {{"in", 1}, {"out", 1}}},
      {"{out: 1000000000, in: 1}", {{"in", 1}, {"out", 1'000'000'000}}},
      {"2", {{"2", 1}}},
  };
  for (const auto& row : rows) {
    const LoadedRules loaded = Parse(
        "domain: d\nrules: [{name: r, limits: [{algorithm: token_bucket, rate: 9/m, counts: " +
        row.counts + "}]}]\n");
    ASSERT_THAT(Messages(loaded), IsEmpty()) << row.counts;
    EXPECT_EQ(loaded.rules[0].rules[0].limits.limits[0].counts, row.expected) << row.counts;
  }
}

TEST(RulesLoader, FileWithEveryPattern_BecomesRules) {
  const LoadedRules loaded = Parse(R"(
domain: shop
unmatched: deny
colocate: user
rules:
  - name: pay
    match:
      endpoint: /pay
      method: [POST, {prefix: PU}]
      agent: {not: [{regex: 'bot.*'}, {exists: true}]}
      client_ip: {cidr: "2001:DB8::/32"}
      version: 2
    per: [user, {attribute: client_ip, ipv4_prefix: 24, ipv6_prefix: 64}]
    limits:
      - {algorithm: token_bucket, rate: 600 per minute}
      - {algorithm: token_bucket, rate: 5000/d, burst: 7, initial: empty}
      - {algorithm: fixed_window, limit: 1000, window: 1d, align: clock, utc_offset: -03:30}
      - {algorithm: fixed_window, limit: 5, window: month}
    overrides:
      - {match: {plan: gold}, limits: unlimited}
      - match: {plan: silver}
        limits: [{algorithm: fixed_window, limit: 9, window: 250ms}]
        counter: own
    mode: shadow
    missing: deny
    on_store_failure: error
)");
  ASSERT_THAT(Messages(loaded), IsEmpty());
  using std::chrono::days;
  using std::chrono::minutes;
  const auto pattern = [](Pattern::Kind kind, std::string text, std::vector<Pattern> of = {}) {
    return Pattern{kind, std::move(text), std::move(of)};
  };
  using Kind = Pattern::Kind;
  const auto any_method =
      pattern(Kind::kAnyOf, "", {pattern(Kind::kExact, "POST"), pattern(Kind::kPrefix, "PU")});
  const auto bot_or_any =
      pattern(Kind::kAnyOf, "", {pattern(Kind::kRegex, "bot.*"), pattern(Kind::kExists, "")});
  Rule rule;
  rule.name = "pay";
  rule.location = "f.yaml:6";
  rule.match = {{"endpoint", pattern(Kind::kExact, "/pay")},
                {"method", any_method},
                {"agent", pattern(Kind::kNot, "", {bot_or_any})},
                {"client_ip", pattern(Kind::kCidr, "2001:db8::/32")},
                {"version", pattern(Kind::kExact, "2")}};
  rule.per = {{"user", {}, {}}, {"client_ip", 24, 64}};
  rule.limits.limits = {
      TokenBucket{.rate = 600, .period = minutes(1), .burst = 10},
      TokenBucket{.rate = 5000, .period = days(1), .burst = 7, .starts_empty = true},
      FixedWindow{.limit = 1000,
                  .window = days(1),
                  .align = FixedWindow::Align::kClock,
                  .utc_offset = -minutes(210)},
      FixedWindow{.limit = 5, .align = FixedWindow::Align::kMonth}};
  const Limit own = FixedWindow{.limit = 9, .window = std::chrono::milliseconds(250)};
  rule.overrides = {
      {{{"plan", pattern(Kind::kExact, "gold")}}, {Limits::Effect::kUnlimited, {}}, false},
      {{{"plan", pattern(Kind::kExact, "silver")}}, {Limits::Effect::kCount, {own}}, true}};
  rule.shadow = true;
  rule.missing = OnMissing::kDeny;
  rule.on_store_failure = OnStoreFailure::kError;
  EXPECT_EQ(loaded.rules, (RuleSet{{"shop", Unmatched::kDeny, "user", {rule}}}));
}

TEST(RulesLoader, EveryAlgorithm_BecomesALimit) {
  using std::chrono::hours;
  using std::chrono::minutes;
  using std::chrono::seconds;
  const struct {
    const char* yaml;
    Limit limit;
  } kRows[] = {
      {"fixed_window, limit: 5, window: 1m", FixedWindow{.limit = 5, .window = minutes(1)}},
      {"sliding_log, limit: 5, window: 1m", SlidingLog{.limit = 5, .window = minutes(1)}},
      {"sliding_window, limit: 5, window: 1h",
       SlidingWindow{.limit = 5, .window = hours(1), .segments = 10}},
      {"sliding_window, limit: 5, window: 1h, segments: 60",
       SlidingWindow{.limit = 5, .window = hours(1), .segments = 60}},
      {"token_bucket, rate: 10/s", TokenBucket{.rate = 10, .period = seconds(1), .burst = 10}},
      {"token_bucket, rate: 10/s, burst: 3, initial: empty, borrow: true",
       TokenBucket{
           .rate = 10, .period = seconds(1), .burst = 3, .starts_empty = true, .borrows = true}},
      {"token_bucket, rate: 10/s, initial: full, borrow: false",
       TokenBucket{.rate = 10, .period = seconds(1), .burst = 10}},
      {"token_bucket, rate: 600/m, warmup: 3s",
       WarmingBucket{.rate = 600, .period = minutes(1), .warmup = seconds(3)}},
      {"token_bucket, rate: 600/m, warmup: 3s, borrow: true",
       WarmingBucket{.rate = 600, .period = minutes(1), .warmup = seconds(3)}},
      {"leaky_bucket, rate: 2/s, queue: 4",
       LeakyBucket{.rate = 2, .period = seconds(1), .queue = 4, .delays = true}},
      {"leaky_bucket, rate: 2 per hour, queue: 0, delay: false",
       LeakyBucket{.rate = 2, .period = hours(1), .queue = 0, .delays = false}},
      {"leaky_bucket, rate: 2/s, queue: 4, delay: true",
       LeakyBucket{.rate = 2, .period = seconds(1), .queue = 4, .delays = true}},
      {"concurrency, limit: 5, ttl: 30s", Concurrency{.limit = 5, .ttl = seconds(30)}},
  };
  for (const auto& row : kRows) {
    const LoadedRules loaded = Parse(
        fmt::format("domain: d\nrules: [{{name: r, limits: [{{algorithm: {}}}]}}]", row.yaml));
    ASSERT_THAT(Messages(loaded), IsEmpty()) << row.yaml;
    EXPECT_THAT(loaded.rules[0].rules[0].limits.limits, ElementsAre(row.limit)) << row.yaml;
  }
}

TEST(RulesLoader, LargestAndSmallestValues_AreAllowed) {
  for (const char* const limit : {
           "{algorithm: fixed_window, limit: 4503599627370496, window: 3650d}",
           "{algorithm: fixed_window, limit: 1, window: 1ms}",
           "{algorithm: fixed_window, limit: 1, window: month, utc_offset: \"+14:00\"}",
           "{algorithm: fixed_window, limit: 1, window: month, utc_offset: \"-12:00\"}",
           "{algorithm: sliding_log, limit: 10000, window: 3650d}",
           "{algorithm: sliding_window, limit: 4503599627370496, window: 3650d, segments: 60}",
           "{algorithm: sliding_window, limit: 1, window: 1ms, segments: 1}",
           "{algorithm: token_bucket, rate: 75059993/s, burst: 2251799813}",
           "{algorithm: token_bucket, rate: 75059993/m, burst: 37529996}",
           "{algorithm: token_bucket, rate: 75059993/h, burst: 625499}",
           "{algorithm: token_bucket, rate: 75059993/d, burst: 26062}",
           "{algorithm: token_bucket, rate: 1/d}",
           "{algorithm: token_bucket, rate: 75059993/s, warmup: 1d}",
           "{algorithm: token_bucket, rate: 1/d, warmup: 1ms}",
           "{algorithm: leaky_bucket, rate: 75059993/s, queue: 2251799812}",
           "{algorithm: leaky_bucket, rate: 1/d, queue: 26061}",
           "{algorithm: leaky_bucket, rate: 1/d, queue: 0}",
           "{algorithm: concurrency, limit: 100000, ttl: 3650d}",
           "{algorithm: concurrency, limit: 1, ttl: 1ms}",
       }) {
    EXPECT_THAT(
        Messages(Parse("domain: d\nrules: [{name: r, limits: [" + std::string(limit) + "]}]")),
        IsEmpty())
        << limit;
  }
}

TEST(RulesLoader, LongestNameAndMostLimits_AreAllowed) {
  const std::string name(100, 'n');
  std::string limits = "{algorithm: concurrency, limit: 1, ttl: 1s, name: " + name + "}";
  for (int i = 1; i < 16; ++i) {
    limits += fmt::format(", {{algorithm: concurrency, limit: 1, ttl: 1s, name: {}}}", i);
  }
  EXPECT_THAT(Messages(Parse("domain: d\nrules: [{name: " + name + ", limits: [" + limits + "]}]")),
              IsEmpty());
}

// Lua computes two products in doubles: the refill of a minute, and the content of two full
// buckets. Both products must be exact.
TEST(RulesLoader, LargestRateAndBurst_ProductsStayExact) {
  constexpr std::int64_t kMinute = 60'000'000;
  EXPECT_LE(std::int64_t{75'059'993} * kMinute, kMaxProduct);
  EXPECT_GT(std::int64_t{75'059'994} * kMinute, kMaxProduct);
  EXPECT_LE(2 * std::int64_t{26'062} * kMinute * 60 * 24, kMaxProduct);
  EXPECT_GT(2 * std::int64_t{26'063} * kMinute * 60 * 24, kMaxProduct);
}

TEST(RulesLoader, Directory_RuleFilesAreReadInOrderOfName_OthersAreSkipped) {
  const RuleDirectory directory;
  directory.Write("b.yaml", "domain: b\nrules: []\n");
  directory.Write("..data/a.yml", "domain: a\nrules: []\n");
  fs::create_symlink("..data/a.yml", directory.path() / "a.yml");
  directory.Write(".hidden.yaml", "nonsense: [");
  directory.Write("notes.txt", "nonsense: [");
  directory.Write("sub.yaml/c.yaml", "nonsense: [");
  const LoadedRules loaded = ParseRules(ReadRuleFiles(directory.path().string()));
  EXPECT_THAT(Messages(loaded), IsEmpty());
  ASSERT_EQ(loaded.rules.size(), 2u);
  EXPECT_EQ(loaded.rules[0].name, "a");
  EXPECT_EQ(loaded.rules[1].name, "b");
}

TEST(RulesLoader, Fingerprint_DoesNotDependOnTheDirectory) {
  const RuleDirectory one, two;
  const auto fingerprint = [](const RuleDirectory& it) {
    return ReadRuleFiles(it.path().string()).fingerprint;
  };
  one.Write("a.yaml", "domain: a\nrules: []\n");
  two.Write("a.yaml", "domain: a\nrules: []\n");
  EXPECT_EQ(fingerprint(one), fingerprint(two));
  two.Write("b.yaml", "domain: b\nrules: []\n");
  EXPECT_NE(fingerprint(one), fingerprint(two));
}

TEST(RulesLoader, UnreadableDirectoryOrFile_IsAnError) {
  const RuleDirectory directory;
  EXPECT_THAT(Messages(ParseRules(ReadRuleFiles(directory.path() / "absent"))),
              ElementsAre(directory.path().string() +
                          "/absent: cannot be read: No such file or directory"));
  fs::create_symlink("nowhere.yaml", directory.path() / "a.yaml");
  EXPECT_THAT(Messages(ParseRules(ReadRuleFiles(directory.path()))),
              ElementsAre(directory.path().string() +
                          "/a.yaml: cannot be read: No such file or directory"));
  EXPECT_THAT(Messages(ParseRules(ReadRuleFiles("/dev/null"))),
              ElementsAre("/dev/null: is not a folder; allowed is a folder with rule files"));
}

TEST(RulesLoader, DomainInTwoFiles_IsAnError) {
  const std::vector<RuleFile> files{{"a.yaml", "domain: d\nrules: []\n"},
                                    {"b.yaml", "rules: []\ndomain: d\n"}};
  EXPECT_THAT(Messages(ParseRules({.files = files})),
              ElementsAre("b.yaml:2:9: domain: found \"d\", which a.yaml has too; allowed is one "
                          "file per domain"));
}

TEST(RulesLoader, HostileText_IsAnErrorNotACrash) {
  for (const std::string& text :
       {std::string(100'000, '['), std::string(100'000, '{'), std::string("a: \0b", 5),
        std::string("? ? ? ?"), std::string("%YAML 9.9\n---\na: b"), std::string("\xEF\xBB\xBF"),
        std::string("*a"), std::string("--- >"), std::string("{a: b"), std::string("a: b: c"),
        std::string("domain: d\nrules: [[[[]]]]"), std::string("domain: {{}: {}}")}) {
    EXPECT_FALSE(Parse(text).ok()) << text.substr(0, 40);
  }
}

TEST(RulesLoader, TruncatedExample_EveryErrorHasAPosition) {
  const std::string text = ReadFile(kSource / "config/rules/shop.yaml");
  for (std::size_t end = 0; end < text.size(); end += 7) {
    for (const Diagnostic& error : Parse(text.substr(0, end)).errors) {
      EXPECT_THAT(error.ToString(), StartsWith("f.yaml:"));
      EXPECT_GT(error.position.line, 0);
    }
  }
}

}  // namespace
}  // namespace sluice
