// The server's side of Redis' protocol: parses commands, and encodes strings for replies.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {

using RedisCommand = std::vector<std::string>;

// Splits a stream of bytes into commands. REQUIRES: commands are arrays of bulk strings.
class CommandReader {
 public:
  void Feed(std::string_view bytes) { bytes_.append(bytes); }

  // Removes the next command and returns it. Returns nullopt if it is incomplete.
  std::optional<RedisCommand> Next() {
    std::size_t at = 0;
    const auto count = ReadSize(at);
    if (!count) return std::nullopt;
    RedisCommand command;
    for (std::size_t i = 0; i < *count; ++i) {
      const auto size = ReadSize(at);
      if (!size || bytes_.size() < at + *size + 2) return std::nullopt;
      command.push_back(bytes_.substr(at, *size));
      at += *size + 2;
    }
    bytes_.erase(0, at);
    return command;
  }

 private:
  // Parses the number in a line such as "*3\r\n", which begins at `at`. Moves `at` past the line.
  std::optional<std::size_t> ReadSize(std::size_t& at) const {
    const std::size_t end = bytes_.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    const std::size_t size = std::stoul(bytes_.substr(at + 1, end - at - 1));
    at = end + 2;
    return size;
  }

  std::string bytes_;
};

inline std::string Bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

}  // namespace sluice::test
