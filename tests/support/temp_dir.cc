#include "tests/support/temp_dir.h"

#include <stdlib.h>

#include <fstream>
#include <system_error>

#include "tests/support/require.h"

namespace sluice::test {

TempDir::TempDir() {
  std::string pattern = std::filesystem::temp_directory_path() / "sluice-test-XXXXXX";
  Require(mkdtemp(pattern.data()) != nullptr, "cannot make a temporary directory");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(std::string_view name, std::string_view text) const {
  const std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  Require(out.good(), "cannot write " + file.string());
  return file;
}

}  // namespace sluice::test
