// A temporary directory of a test. The destructor removes it with its contents. The path is short
// enough for unix sockets.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace sluice::test {

class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, and creates its parent directories. Returns the file's path.
  std::string Write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::test
