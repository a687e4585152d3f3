#include "replay/log_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace sluice::replay {
namespace {

constexpr std::size_t kStart = std::size_t{64} << 10;
constexpr std::size_t kPadding = 64;  // bytes that may be read beyond the last line

}  // namespace

Result<std::unique_ptr<LogFile>> LogFile::Open(const std::string& path) {
  const bool is_input = path == "-";
  struct stat status {};
  if (!is_input && stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return InvalidArgument(path + ": is a directory; give the log files in it");
  }
  gzFile file = is_input ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb");
  if (file == nullptr) return Error{ErrorCode::kNotFound, path + ": " + std::strerror(errno)};
  gzbuffer(file, kMaxLine / 4);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return std::unique_ptr<LogFile>(new LogFile(is_input ? "standard input" : path, file, size));
}

LogFile::LogFile(std::string name, gzFile file, std::uint64_t size)
    : name_(std::move(name)), file_(file), size_(size), buffer_(2 * kMaxLine + kPadding) {
  while (end_ < kStart && Fill()) {
  }
  start_.assign(buffer_.data(), std::min(end_, kStart));
}

bool LogFile::Fill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  const auto room = static_cast<unsigned>(buffer_.size() - kPadding - end_);
  const int count = gzread(file_.get(), buffer_.data() + end_, room);
  if (count > 0) {
    end_ += static_cast<std::size_t>(count);
    return true;
  }
  int code = Z_OK;
  const char* const message = gzerror(file_.get(), &code);
  if (code == Z_BUF_ERROR) fault_ = "the gzip data ends early";
  if (code == Z_ERRNO) fault_ = std::strerror(errno);
  if (code != Z_OK && fault_.empty()) fault_ = message;
  return false;
}

std::optional<std::string_view> LogFile::Next() {
  cut_ = false;
  std::size_t searched = 0;  // bytes that have no newline
  do {
    const std::string_view rest(buffer_.data() + begin_, end_ - begin_);
    const std::size_t length = rest.find('\n', searched);
    if (length != rest.npos) {
      begin_ += length + 1;
      ++number_;
      const std::string_view line = rest.substr(0, length);
      return line.ends_with('\r') ? line.substr(0, length - 1) : line;
    }
    if (rest.size() >= kMaxLine) {  // drop the part of the line that was read
      cut_ = true;
      begin_ = end_ - 1;
    }
    searched = end_ - begin_;
  } while (Fill());
  if (begin_ == end_) return std::nullopt;
  ++number_;
  const std::string_view last(buffer_.data() + begin_, end_ - begin_);
  begin_ = end_;
  return last;
}

std::uint64_t LogFile::bytes_read() const {
  const z_off_t offset = gzoffset(file_.get());
  return offset < 0 ? 0 : static_cast<std::uint64_t>(offset);
}

}  // namespace sluice::replay
