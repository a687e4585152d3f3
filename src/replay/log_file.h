// A log file, plain or compressed by gzip, as lines. One thread at a time.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::replay {

class LogFile {
 public:
  // Longer lines may be cut; see line_is_cut.
  static constexpr std::size_t kMaxLine = std::size_t{1} << 20;

  // "-": standard input.
  static Result<std::unique_ptr<LogFile>> Open(const std::string& path);

  // The beginning of the file, up to 64 KiB. Does not change when lines are read.
  std::string_view start() const { return start_; }

  // The next line without its line break; nullopt at the end of the file. Valid until the next
  // call. The 64 bytes after the line may be read.
  std::optional<std::string_view> Next();

  const std::string& name() const { return name_; }
  // The number of the line that Next returned last.
  std::uint64_t line_number() const { return number_; }
  // Whether that line was too long, so that Next returned only its end.
  bool line_is_cut() const { return cut_; }
  // Why the file could not be read to its end; empty if there has been no error.
  const std::string& fault() const { return fault_; }
  // The number of the file's bytes that were read so far; 0 if not known.
  std::uint64_t bytes_read() const;
  // The size of the file; 0 if not known.
  std::uint64_t size() const { return size_; }

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose(file); }
  };

  LogFile(std::string name, gzFile file, std::uint64_t size);
  // Appends to the buffer. Returns false at the end of the file or after an error.
  bool Fill();

  const std::string name_;
  const std::unique_ptr<gzFile_s, Close> file_;
  const std::uint64_t size_;
  std::string start_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of the part of the buffer that Next has not returned yet
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;
  bool cut_ = false;
  std::string fault_;
};

}  // namespace sluice::replay
