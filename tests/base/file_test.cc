#include "base/file.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

TEST(ReadFile, ReturnsTheWholeContent) {
  const test::TempDir dir;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 10000}) {
    EXPECT_EQ(*ReadFile(dir.Write("file", std::string(size, 'x'))), std::string(size, 'x'));
  }
}

TEST(ReadFile, NotAFile_IsAnError) {
  EXPECT_EQ(ReadFile("/no/such").error().message,
            "/no/such cannot be read: No such file or directory");
  EXPECT_EQ(ReadFile("/tmp").error().message, "/tmp cannot be read: Is a directory");
}

}  // namespace
}  // namespace sluice
