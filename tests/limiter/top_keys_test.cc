// The most denied and most used keys: tests which checks are counted, that the highest counts of
// the sketches are right, and that the sketches are bounded.
#include "limiter/top_keys.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "tests/limiter/fixture.h"
#include "tests/support/allocations.h"
#include "tests/support/random.h"

namespace sluice::test {
namespace {

class TopKeysTest : public LimiterTest {
 protected:
  void SetUp() override {
    Rule per_user = RuleOf("per-user", {PerMinute(2)});
    per_user.per = {{.attribute = "user"}};
    SetRules({per_user});
  }

  // Each entry as "key count", in the same order.
  static std::vector<std::string> Text(const std::vector<KeySketch::Entry>& entries) {
    std::vector<std::string> lines;
    for (const auto& it : entries) lines.push_back(it.key + " " + std::to_string(it.count));
    return lines;
  }
  using Lines = std::vector<std::string>;
};

TEST_F(TopKeysTest, Watched_CountsDeniedAndUsed) {
  limiter_.top_keys().Restart();
  for (int i = 0; i < 5; ++i) Check({{"user", "ada"}});
  for (int i = 0; i < 3; ++i) Check({{"user", "bob"}});
  Check({{"user", "cy"}});
  const auto keys = limiter_.top_keys().Read(10);
  const std::string start = "sluice:{shop/per-user/user=";
  const std::string tag = keys.used[0].key.substr(keys.used[0].key.find('}'));
  EXPECT_EQ(Text(keys.denied), (Lines{start + "ada" + tag + " 3", start + "bob" + tag + " 1"}));
  EXPECT_EQ(keys.used.size(), 3U);
  EXPECT_EQ(Text(keys.used).back(), start + "cy" + tag + " 1");
  EXPECT_EQ(keys.denied[0].domain, "shop");
  EXPECT_EQ(keys.denied[0].rule, "per-user");
  EXPECT_EQ(limiter_.top_keys().Read(1).denied.size(), 1U);
}

TEST_F(TopKeysTest, NotWatched_CountsNothing) {
  Check({{"user", "ada"}});
  EXPECT_TRUE(limiter_.top_keys().Read(10).used.empty());
  limiter_.top_keys().Restart();
  Check({{"user", "ada"}});
  EXPECT_EQ(limiter_.top_keys().Read(10).used.size(), 1U);
  limiter_.top_keys().Stop();
  Check({{"user", "bob"}});
  EXPECT_TRUE(limiter_.top_keys().Read(10).used.empty());
}

TEST_F(TopKeysTest, Restart_ForgetsTheCounts) {
  limiter_.top_keys().Restart();
  Check({{"user", "ada"}});
  limiter_.top_keys().Restart();
  EXPECT_TRUE(limiter_.top_keys().Read(10).used.empty());
  Check({{"user", "ada"}});
  EXPECT_EQ(limiter_.top_keys().Read(10).used.at(0).count, 1U);
}

TEST_F(TopKeysTest, Peek_IsNotCounted) {
  limiter_.top_keys().Restart();
  CheckRequest peek = RequestOf(Mode::kPeek);
  peek.attributes = {{"user", "ada"}};
  for (int i = 0; i < 2; ++i) Ask(peek);
  const auto keys = limiter_.top_keys().Read(10);
  EXPECT_TRUE(keys.used.empty());
  EXPECT_TRUE(keys.denied.empty());
}

TEST_F(TopKeysTest, ShadowRule_CountsNoDenial) {
  Rule shadow = RuleOf("shadow", {PerMinute(1)});
  shadow.shadow = true;
  SetRules({shadow});
  limiter_.top_keys().Restart();
  for (int i = 0; i < 3; ++i) Check();
  EXPECT_TRUE(limiter_.top_keys().Read(10).denied.empty());
}

// If the deny cache denies a check, the answer has only the limits that deny.
TEST_F(TopKeysTest, DenyCache_CountsTheKeyThatDenies) {
  Limiter limiter({.store = store_, .local = local_, .fallback = fallback_, .metrics = metrics_},
                  {.deny_cache = true});
  Domain domain;
  domain.name = "shop";
  domain.rules = {RuleOf("wide", {PerMinute(100)}), RuleOf("narrow", {PerMinute(1)})};
  limiter.SetRules(RuleIndex::Build({domain}, {}).value());
  limiter.top_keys().Restart();
  Call call(limiter);
  for (int i = 0; i < 5; ++i) {
    call.request = CheckRequest{};
    call.request.domain = "shop";
    call.Start();
  }
  EXPECT_EQ(call.answer->value().source, Source::kDenyCache);
  const auto denied = limiter.top_keys().Read(10).denied;
  ASSERT_EQ(denied.size(), 1U);
  EXPECT_EQ(denied[0].rule, "narrow");
  EXPECT_NE(denied[0].key.find("/narrow"), std::string::npos) << denied[0].key;
  EXPECT_EQ(denied[0].count, 4U);
}

// Draws keys 0, 1, … with probabilities that fall as 1/(key + 1).
class Zipf {
 public:
  explicit Zipf(std::size_t keys) {
    double sum = 0;
    for (std::size_t i = 0; i < keys; ++i)
      below_.push_back(sum += 1.0 / static_cast<double>(i + 1));
  }
  std::size_t Draw(Random& random) const {
    const double at = std::uniform_real_distribution<double>(0, below_.back())(random);
    return static_cast<std::size_t>(std::upper_bound(below_.begin(), below_.end(), at) -
                                    below_.begin());
  }

 private:
  std::vector<double> below_;
};

// Counts a denial of a key.
void Deny(TopKeys& keys, const IndexedRule& rule, std::string_view key) {
  struct Denied final : StoreCheck {
    void OnDecided() override {}
  } check;
  check.counters.push_back({.key = key, .verdict = {}});
  const LimitAnswer limit{.rule = &rule, .verdict = {.admitted = false}};
  keys.Note(check, {&limit, 1}, /*taken=*/false);
}

TEST(TopKeysOfZipfTest, TenMostDenied_AreFoundWithinOnePercent) {
  constexpr int kThreads = 2, kDrawsEach = 500'000;
  const Zipf zipf(100'000);
  const IndexedRule rule;
  TopKeys keys;
  keys.Restart();
  std::vector<std::vector<std::uint64_t>> drawn(kThreads, std::vector<std::uint64_t>(100'000));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint64_t>(t));
      for (int i = 0; i < kDrawsEach; ++i) {
        const std::size_t key = zipf.Draw(random);
        ++drawn[static_cast<std::size_t>(t)][key];
        Deny(keys, rule, "key-" + std::to_string(key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto top = keys.Read(10).denied;
  ASSERT_EQ(top.size(), 10U);
  for (std::size_t i = 0; i < top.size(); ++i) {
    const auto truth = static_cast<double>(drawn[0][i] + drawn[1][i]);
    const auto found = std::find_if(top.begin(), top.end(), [&](const auto& it) {
      return it.key == "key-" + std::to_string(i);
    });
    ASSERT_NE(found, top.end()) << i;
    EXPECT_NEAR(static_cast<double>(found->count), truth, truth / 100) << i;
    EXPECT_LE(found->error, found->count / 100) << i;
  }
}

TEST(KeySketchTest, NoRoomForAKey_ReplacesTheLeastFrequentAndTakesItsCount) {
  KeySketch sketch(2);
  for (const char* key : {"a", "a", "a", "b"}) sketch.Count({.key = key});
  for (int asked = 0; sketch.entries()[1].key == "b" && asked < 1'000; ++asked) {
    sketch.Count({.key = "c"});
  }
  ASSERT_EQ(sketch.entries().size(), 2U);
  EXPECT_EQ(sketch.entries()[0].count, 3U);
  EXPECT_EQ(sketch.entries()[1].key, "c");
  EXPECT_EQ(sketch.entries()[1].count, 2U);
  EXPECT_EQ(sketch.entries()[1].error, 1U);
  EXPECT_EQ(sketch.most_missed(), 2U);
}

// Until a key gets an entry, its checks are missed. The entry begins with a count that is, on
// average, the number of missed checks.
TEST(KeySketchTest, KeysOfAFlood_AreCountedRightOnAverage) {
  constexpr int kKeys = 3'000, kTimes = 1'000;
  KeySketch sketch(1);
  double counted = 0;
  for (int i = 0; i < kKeys; ++i) {
    const std::string key = std::to_string(i);
    for (int time = 0; time < kTimes; ++time) sketch.Count({.key = key});
    const KeySketch::Entry entry = sketch.entries()[0];
    if (entry.key == key) counted += static_cast<double>(entry.count);
  }
  EXPECT_NEAR(counted / kKeys, kTimes, kTimes / 10);
}

TEST(KeySketchTest, FloodOfKeys_TakesNoMoreMemory) {
  KeySketch sketch(500);
  std::string key = "sluice:{shop/per-user/user=00000000}:w60";
  const auto flood = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      std::uint64_t rest = i;
      for (std::size_t digit = 0; digit < 8; ++digit, rest /= 10) {
        key[34 - digit] = static_cast<char>('0' + rest % 10);
      }
      sketch.Count({.key = key, .domain = "shop", .rule = "per-user"});
    }
  };
  flood(0, 1'000);
  const std::size_t before = Allocations();
  flood(1'000, 10'000'000);
  EXPECT_TRUE(!CountsAllocations() || Allocations() == before);
  EXPECT_EQ(sketch.entries().size(), 500U);
  EXPECT_LT(sketch.most_missed(), 300U);  // about √(2 · 10,000,000 / 500)
}

}  // namespace
}  // namespace sluice::test
