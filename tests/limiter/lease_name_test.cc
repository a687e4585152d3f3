#include "limiter/lease_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "match/counter_key.h"

namespace sluice {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const std::string kId = "000102030405060708090a0b0c0d0eff";
const std::string kStart = "1." + kId + ".30000000.store ";
const std::string kKey = "sluice:{shop/jobs/ann}:concurrency";

LeaseName Name(const std::vector<std::string_view>& keys) {
  LeaseName name{.ttl = seconds(30)};
  for (const std::string_view key : keys) {
    name.counters.push_back({.key = std::string(key), .limit = AnySlots(), .counts = {}});
  }
  for (std::uint8_t i = 0; i < name.bits.size(); ++i) name.bits[i] = i;
  name.bits.back() = 0xFF;
  return name;
}

TEST(LeaseName, ToTextAndBack_IsUnchanged) {
  const std::vector<std::vector<std::string_view>> key_lists = {
      {kKey},
      {kKey, "sluice:{shop/jobs/ann}:concurrency.2", "sluice:{a/user=%20}r:concurrency.A-b_c.13"},
      {"sluice:{a/:concurrency:concurrency/#0f}:concurrency"},
      {"sluice:{a/b/}:concurrency=gpus,cpu%3A1", "sluice:{a/b/}:concurrency.A-b_c=#0f"},
  };
  for (const auto& keys : key_lists) {
    for (const bool local : {false, true}) {
      LeaseName name = Name(keys);
      name.local = local;
      for (const Duration ttl : {Duration(1'000), Duration(std::chrono::days(3650))}) {
        name.ttl = ttl;
        const std::string text = name.ToText().value();
        const auto parsed = LeaseName::Parse(text);
        ASSERT_TRUE(parsed) << text;
        EXPECT_EQ(parsed->lease(), name.lease());
        EXPECT_EQ(parsed->ttl, ttl);
        EXPECT_EQ(parsed->local, local);
        EXPECT_EQ(*parsed, name);
      }
    }
  }
  EXPECT_EQ(Name({kKey}).ToText(), kStart + kKey);
}

// The names in Redis must not change between versions. Each name is the first 16 bytes of the
// SHA-256 of the id's bits and the ttl. The ttl has 8 bytes, in little-endian order.
TEST(LeaseName, Slot_IsNamedByBitsAndTtl) {
  const LeaseId slot = {0xf2, 0x54, 0xdb, 0x99, 0x42, 0x6a, 0x20, 0xb5,
                        0x6e, 0x77, 0x73, 0x52, 0xba, 0x39, 0xd9, 0xec};
  LeaseName name = Name({kKey});
  EXPECT_EQ(name.lease().id, slot);
  EXPECT_EQ(name.lease().ttl, seconds(30));
  name.ttl += Duration(1);
  EXPECT_NE(name.lease().id, slot);
}

struct Check final : StoreCheck {
  void OnDecided() override {}
};

LeaseName NameOfUnits() {
  LeaseName name{.ttl = seconds(30), .units = true};
  const auto amount_of = [](std::string_view amount) { return amount == "a b" ? kMaxCost : 1; };
  const auto add = [&](std::string_view rule, const RuleLimit& limit, std::uint16_t group) {
    const std::string key = std::string(rule) + CounterTag(limit);
    name.Add({.key = key, .limit = &limit.limit, .group = group, .verdict = {}}, 3, limit.counts,
             amount_of);
  };
  RuleLimit weighted(TokenBucket{.rate = 60, .period = std::chrono::minutes(1), .burst = 9}, "n.m");
  weighted.counts = {{"a b", 2}, {"ü/:,=~|+*", 1'000'000'000}};
  add("sluice:{shop/r/user=~|}:", weighted, 0);
  FixedWindow month;
  month.align = FixedWindow::Align::kMonth;
  month.utc_offset = std::chrono::hours(-3);
  add("sluice:{shop/r/user=~|}:", RuleLimit(month), 0);
  add("sluice:{shop/r/user=~|}:", RuleLimit(FixedWindow{.limit = 1, .window = seconds(1)}), 0);
  add("sluice:{shop/x}r~0f/user=1:", RuleLimit(SlidingLog{.limit = 5, .window = seconds(9)}), 0);
  add("sluice:{shop/s/}:", RuleLimit(SlidingWindow{.limit = 5, .window = seconds(9)}), 1);
  add("sluice:{shop/s/}:", RuleLimit(LeakyBucket{.rate = 5, .period = seconds(1), .queue = 0}), 1);
  add("sluice:{shop/s/}:", RuleLimit(Concurrency{.limit = 5, .ttl = seconds(1)}), 1);
  add("sluice:{shop/t/}:",
      RuleLimit(WarmingBucket{.rate = 7, .period = seconds(1), .warmup = seconds(5)}), 2);
  return name;
}

TEST(LeaseName, NameOfUnits_ToTextAndBack_IsUnchanged) {
  for (const bool local : {false, true}) {
    LeaseName name = NameOfUnits();
    name.local = local;
    const std::string text = name.ToText().value();
    const auto parsed = LeaseName::Parse(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, name);
    EXPECT_EQ(parsed->lease(), NameOfUnits().lease()) << "regardless of where it was granted";
    EXPECT_EQ(LeaseName::RuleOf(parsed->counters[0]), "r");
    EXPECT_EQ(LeaseName::RuleOf(parsed->counters[3]), "r");
    EXPECT_EQ(LeaseName::UnitsOf(parsed->counters[1], parsed->amounts), 1);
    EXPECT_FALSE(LeaseName::UnitsOf(parsed->counters[0], parsed->amounts)) << "too many";
  }
}

// The counters of one hash tag share one record in the store.
TEST(LeaseName, OfUnits_CountersOfOneHashTag_AllStayAsTakenOrNone) {
  LeaseName name = NameOfUnits();
  for (std::size_t i = 0; i < 3; ++i) name.counters[i].stays = true;
  const std::string text = name.ToText().value();
  auto parsed = LeaseName::Parse(text);
  ASSERT_TRUE(parsed) << text;
  EXPECT_EQ(*parsed, name);
  Check check;
  parsed->FillIn(check);
  EXPECT_EQ(check.lease->id, NameOfUnits().lease().id);
  ASSERT_EQ(check.counters.size(), name.counters.size() - 3);
  EXPECT_EQ(check.counters[0].key, name.counters[3].key);
  EXPECT_EQ(parsed->counters.size(), check.counters.size());

  const auto is_id = [](const LeaseName& edited) {
    return LeaseName::Parse(edited.ToText().value()).has_value();
  };
  name.counters[1].stays = false;
  EXPECT_FALSE(is_id(name));
  name = NameOfUnits();
  name.counters.back().stays = true;
  EXPECT_TRUE(is_id(name));
  name.local = true;
  EXPECT_FALSE(is_id(name)) << "this server has granted the whole lease";
  name.local = false;
  for (auto& counter : name.counters) counter.stays = true;
  EXPECT_FALSE(is_id(name)) << "nothing is settled";
}

// If a byte is edited, the text is not a lease id, or it is the id of another lease.
TEST(LeaseName, OfUnits_EditedText_NeverNamesTheSameLease) {
  const LeaseName name = NameOfUnits();
  const std::string text = name.ToText().value();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const char byte : std::string_view("012 .:|+*/~-!x")) {
      std::string edited = text;
      edited[i] = byte;
      const auto parsed = LeaseName::Parse(edited);
      if (edited == text || !parsed) continue;
      EXPECT_EQ(parsed->ToText(), edited);
      EXPECT_NE(parsed->lease().id, name.lease().id) << edited;
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto parsed = LeaseName::Parse(text.substr(0, size));
    EXPECT_TRUE(!parsed || parsed->lease().id != name.lease().id) << size;
  }
}

TEST(LeaseName, ToText_TooLong_IsNullopt) {
  const std::string key =
      "sluice:{" + std::string(2048 - kStart.size() - 21, 'x') + "}:concurrency";
  const auto longest = Name({key}).ToText();
  ASSERT_TRUE(longest);
  EXPECT_EQ(longest->size(), LeaseName::kMaxBytes);
  EXPECT_TRUE(LeaseName::Parse(*longest));
  EXPECT_FALSE(Name({key + "x"}).ToText());
  EXPECT_FALSE(LeaseName::Parse(*longest + "x"));
}

TEST(LeaseName, Parse_OtherTexts_AreRefused) {
  const std::string texts[] = {
      "",
      " ",
      "1",
      "2",
      kStart,
      kKey,
      std::string(3'000, 'x'),
      "0." + kId + ".30000000.store " + kKey,
      "2." + kId + ".30000000.store " + kKey,
      "10." + kId + ".30000000.store " + kKey,
      "1." + kId.substr(1) + ".30000000.store " + kKey,
      "1." + kId + "0.30000000.store " + kKey,
      "1." + std::string(32, 'g') + ".30000000.store " + kKey,
      "1." + std::string(32, '-') + ".30000000.store " + kKey,
      "1.000102030405060708090A0B0C0D0EFF.30000000.store " + kKey,
      "1." + kId + "..store " + kKey,
      "1." + kId + ".0.store " + kKey,
      "1." + kId + ".999.store " + kKey,
      "1." + kId + ".-30000000.store " + kKey,
      "1." + kId + ".+30000000.store " + kKey,
      "1." + kId + ".030000000.store " + kKey,
      "1." + kId + ".3e7.store " + kKey,
      "1." + kId + ".315360000000001.store " + kKey,
      "1." + kId + ".9223372036854775808.store " + kKey,
      "1." + kId + ".30000000 " + kKey,
      "1." + kId + ".30000000.Store " + kKey,
      "1." + kId + ".30000000.remote " + kKey,
      kStart + " " + kKey,
      kStart + kKey + " ",
      kStart + kKey + "  " + kKey + ".2",
      kStart + kKey + " " + kKey,
      kStart + kKey + " nonsense",
      kStart + kKey + "\n",
      kStart + kKey + ".",
      kStart + kKey + ".x:y",
      kStart + kKey + ".x/y",
      kStart + kKey + ".é",
      kStart + kKey + "x",
      kStart + "sluice:{shop/jobs/ann}:token_bucket:1s",
      kStart + "sluice:{shop/jobs/ann}:concurrency:fixed_window:1d",
      kStart + "sluice:{shop/jobs/:concurrency",
      kStart + "sluice:{shop/jobs/ann}:concurrency=",
      kStart + "sluice:{shop/jobs/ann}:concurrency=a:b",
      kStart + "sluice:shop/jobs/ann:concurrency",
      kStart + "other:{shop/jobs/ann}:concurrency",
      kStart + "somebody-else's-key",
  };
  for (const std::string& text : texts) {
    const auto parsed = LeaseName::Parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("lease_id"));
  }
}

}  // namespace
}  // namespace sluice
