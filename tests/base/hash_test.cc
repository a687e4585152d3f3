#include "base/hash.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

// First halves of FIPS 180-4's example digests.
TEST(Sha256Hex128, Examples_MatchTheStandard) {
  EXPECT_EQ(Sha256Hex128(""), "e3b0c44298fc1c149afbf4c8996fb924");
  EXPECT_EQ(Sha256Hex128("abc"), "ba7816bf8f01cfea414140de5dae2223");
  EXPECT_EQ(Sha256Hex128("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039");
}

TEST(KeyedHash, EveryByteTheLengthAndTheSecretMatter) {
  const Hash128 secret{1, 2};
  const std::string key = "sluice:{shop/pay-per-user/user=42}:token_bucket:1s";
  for (std::size_t length = 0; length <= key.size(); ++length) {
    const std::string part = key.substr(0, length);
    EXPECT_EQ(KeyedHash(part, secret), KeyedHash(part, secret));
    EXPECT_NE(KeyedHash(part, secret), KeyedHash(part + '\0', secret));
    EXPECT_NE(KeyedHash(part, secret), KeyedHash(part, {1, 3}));
    for (std::size_t i = 0; i < length; ++i) {
      std::string other = part;
      ++other[i];
      EXPECT_NE(KeyedHash(part, secret).low, KeyedHash(other, secret).low);
      EXPECT_NE(KeyedHash(part, secret).high, KeyedHash(other, secret).high);
    }
  }
}

TEST(CombineHash, Order_Matters) {
  EXPECT_NE(CombineHash(Hash("a"), Hash("b")), CombineHash(Hash("b"), Hash("a")));
}

}  // namespace
}  // namespace sluice
