// A child process. A separate thread reads its output. The destructor kills and reaps the process.
// If the thread that started the process ends, the kernel kills the process. So start processes on
// the test's main thread.
//
// The functions that return output are thread-safe, the others are not.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread.h"

namespace sluice::test {

class Process {
 public:
  struct Options {
    std::vector<std::string> argv;         // argv[0] is the program's path
    std::vector<std::string> environment;  // NAME=value, added to the test program's environment
  };

  explicit Process(const Options& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);

  // Waits until the process ends. Returns its exit status, or 128 + the signal's number if a signal
  // ended it. Returns nullopt after `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

  // Waits for the first line of stdout or stderr that contains `text`. Returns nullopt after
  // `timeout`, or if the output ends without such a line.
  std::optional<std::string> WaitForLine(std::string_view text, std::chrono::milliseconds timeout);

  // The number of lines so far that contain `text`.
  int CountLines(std::string_view text) const;

  // The output so far.
  std::string Output() const;

 private:
  void Spawn(const Options& options, int output);
  void ReadOutput();
  void Append(std::string_view text);

  pid_t pid_ = -1;
  int output_ = -1;
  std::optional<int> status_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> lines_ SLUICE_GUARDED_BY(mutex_);
  std::string partial_ SLUICE_GUARDED_BY(mutex_);
  bool ended_ SLUICE_GUARDED_BY(mutex_) = false;
  Thread reader_;
};

}  // namespace sluice::test
