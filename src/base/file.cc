#include "base/file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

namespace sluice {

std::optional<std::string> ReadFileOrErrno(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  // Unlike an iterator, `read` does not throw if the path is a directory.
  for (char block[16 * 1024]; file;) {
    file.read(block, sizeof block);
    text.append(block, static_cast<std::size_t>(file.gcount()));
  }
  if (file.eof()) return text;
  return std::nullopt;
}

Result<std::string> ReadFile(const std::string& path) {
  if (auto text = ReadFileOrErrno(path)) return std::move(*text);
  return InvalidArgument(fmt::format("{} cannot be read: {}", path, std::strerror(errno)));
}

}  // namespace sluice
