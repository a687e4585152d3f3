#include "base/hash.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

namespace sluice {
namespace {

// The first 128 bits of the example digests for FIPS 180-4.
TEST(Sha256Hex128, Examples_MatchTheStandard) {
  EXPECT_EQ(Sha256Hex128(""), "e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(Sha256Hex128("abc"), "ba7816bf8f01cfea414140de5dae2223");
  EXPECT_EQ(Sha256Hex128("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039");
}

TEST(WideHash, Hash_DependsOnEveryByteAndTheLength) {
  const std::string key = "sluice:{shop/pay-per-user/user=42}:token_bucket:1s";
  for (std::size_t length = 0; length <= key.size(); ++length) {
    const std::string part = key.substr(0, length);
    EXPECT_EQ(WideHash(part), WideHash(std::string(part)));
    EXPECT_NE(WideHash(part), WideHash(part + '\0'));
    for (std::size_t i = 0; i < length; ++i) {
      std::string other = part;
      ++other[i];
      EXPECT_NE(WideHash(part).low, WideHash(other).low);
      EXPECT_NE(WideHash(part).high, WideHash(other).high);
    }
  }
}

TEST(Hash, Hash_DependsOnEveryByteAndTheLength) {
  const std::string key = "sluice:{shop/pay-per-user/user=42}:token_bucket:1s";
  for (std::size_t i = 0; i < key.size(); ++i) {
    std::string other = key;
    ++other[i];
    EXPECT_EQ(Hash(key), Hash(std::string(key)));
    EXPECT_NE(Hash(key), Hash(other));
    EXPECT_NE(Hash(key), Hash(key.substr(0, i)));
  }
}

TEST(HashedKey, EqualTexts_AreEqualAndHaveOneHash) {
  const std::string text = "sluice:{shop/pay-per-user/user=42}:token_bucket:1s";
  const std::string same = text;
  const HashedKey key = text;
  EXPECT_EQ(std::string_view(key), text);
  EXPECT_EQ(key, HashedKey(same));
  EXPECT_EQ(key, same);
  EXPECT_EQ(key.wide_hash(), WideHash(text));
  EXPECT_EQ(key.hash(), HashedKey(same).hash());
  EXPECT_NE(key, HashedKey("sluice:{shop}"));
  EXPECT_NE(key.hash(), HashedKey("sluice:{shop}").hash());
}

// A caller who knows the hash function of libstdc++ can compute such keys.
TEST(Hash, KeysThatCollideInTheStandardLibrary_DoNotCollide) {
  const std::string_view a = "user=4a/user=4b/";
  const std::string_view b = "user=4c/\311\037\317\330\222\313\200\206";
  ASSERT_EQ(std::hash<std::string_view>{}(a), std::hash<std::string_view>{}(b));
  EXPECT_NE(Hash(a), Hash(b));
}

TEST(CombineHash, Order_Matters) {
  EXPECT_NE(CombineHash(Hash("a"), Hash("b")), CombineHash(Hash("b"), Hash("a")));
}

}  // namespace
}  // namespace sluice
