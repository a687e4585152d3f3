#include "base/secret.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(IsSecret, OnlyTheWholeSecret_Is) {
  EXPECT_TRUE(IsSecret("open sesame", "open sesame"));
  for (const char* given : {"", "open", "open sesamf", "open sesame ", "Open sesame"}) {
    EXPECT_FALSE(IsSecret(given, "open sesame")) << given;
  }
}

}  // namespace
}  // namespace sluice
