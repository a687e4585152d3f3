#include "limiter/lease_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

const std::string kId = "000102030405060708090a0b0c0d0eff";
const std::string kStart = "1." + kId + ".30000000.store ";
const std::string kKey = "sluice:{shop/jobs/ann}:concurrency";

LeaseName Name(std::vector<std::string_view> keys) {
  LeaseName name{.ttl = seconds(30), .keys = std::move(keys)};
  for (std::uint8_t i = 0; i < name.bits.size(); ++i) name.bits[i] = i;
  name.bits.back() = 0xFF;
  return name;
}

TEST(LeaseName, ToTextAndBack_SaysTheSame) {
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
        EXPECT_EQ(parsed->keys, keys);
      }
    }
  }
  EXPECT_EQ(Name({kKey}).ToText(), kStart + kKey);
}

// The names in Redis must not change between versions: sha256sum of the bits, and of the ttl in 8
// bytes, lowest first.
TEST(LeaseName, Slot_IsNamedByBitsAndTtl) {
  const LeaseId slot = {0xf2, 0x54, 0xdb, 0x99, 0x42, 0x6a, 0x20, 0xb5,
                        0x6e, 0x77, 0x73, 0x52, 0xba, 0x39, 0xd9, 0xec};
  LeaseName name = Name({kKey});
  EXPECT_EQ(name.lease().id, slot);
  EXPECT_EQ(name.lease().ttl, seconds(30));
  name.ttl += Duration(1);
  EXPECT_NE(name.lease().id, slot);
}

TEST(LeaseName, ToText_TooLong_IsNothing) {
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
