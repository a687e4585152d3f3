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

TEST(CombineHash, Order_Matters) {
  EXPECT_NE(CombineHash(Hash("a"), Hash("b")), CombineHash(Hash("b"), Hash("a")));
}

}  // namespace
}  // namespace sluice
