// A directory of one test, removed with everything in it when its owner dies. Its path is short
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

  // Writes a file, and the directories it needs; returns its path.
  std::string Write(std::string_view name, std::string_view text) const;

 private:
  std::filesystem::path path_;
};

}  // namespace sluice::test
