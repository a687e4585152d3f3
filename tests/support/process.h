// A child process, its output read by a thread of its own. It ends with its owner: killed and
// reaped by the destructor, and by the kernel if the thread that started it dies first; so start
// processes on the test's main thread.
//
// What was printed may be asked on any thread; the rest is for one thread at a time.
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
    std::vector<std::string> environment;  // NAME=value, besides this process' own
  };

  explicit Process(const Options& options);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal);

  // The exit status, 128 + signal if a signal ended it; nothing if it runs on after `timeout`.
  std::optional<int> Wait(std::chrono::milliseconds timeout);

  // The first line of stdout or stderr that contains `text`; nothing if none comes in time or the
  // output ends.
  std::optional<std::string> WaitForLine(std::string_view text, std::chrono::milliseconds timeout);

  // How many lines so far contain `text`.
  int CountLines(std::string_view text) const;

  // Everything the process has printed so far.
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
