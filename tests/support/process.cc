#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "tests/support/require.h"

extern char** environ;

namespace sluice::test {

namespace {

std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& additions) {
  std::vector<std::string> all = additions;  // if a name occurs twice, the first value counts
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

int PidFd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

}  // namespace

Process::Process(const Options& options) {
  std::array<int, 2> ends;
  Require(pipe2(ends.data(), O_CLOEXEC) == 0, "cannot make a pipe");
  output_ = ends[0];
  Spawn(options, ends[1]);
  close(ends[1]);
  reader_ = Thread("output", [this] { ReadOutput(); });
}

Process::~Process() {
  if (!status_) {
    Signal(SIGKILL);
    Wait(std::chrono::seconds(10));
  }
  reader_.Join();
  close(output_);
}

// Between fork and exec, only async-signal-safe calls are allowed. So all memory is allocated
// before the fork.
void Process::Spawn(const Options& options, int output) {
  std::vector<std::string> arguments = options.argv;
  std::vector<std::string> environment = EnvironmentWith(options.environment);
  const std::vector<char*> argv = PointersTo(arguments);
  const std::vector<char*> envp = PointersTo(environment);
  const pid_t parent = getpid();
  pid_ = fork();
  Require(pid_ >= 0, "cannot fork");
  if (pid_ > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

void Process::Signal(int signal) {
  if (!status_) kill(pid_, signal);
}

std::optional<int> Process::Wait(std::chrono::milliseconds timeout) {
  if (status_) return status_;
  pollfd exited{.fd = PidFd(pid_), .events = POLLIN, .revents = 0};
  Require(exited.fd >= 0, "cannot open a pidfd");
  const int ready = poll(&exited, 1, static_cast<int>(timeout.count()));
  close(exited.fd);
  if (ready <= 0) return std::nullopt;
  int status = 0;
  Require(waitpid(pid_, &status, 0) == pid_, "cannot reap a child");
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::optional<std::string> Process::WaitForLine(std::string_view text,
                                                std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::optional<std::string> found;
  std::size_t seen = 0;
  MutexLock lock(mutex_);
  changed_.WaitUntil(mutex_, deadline, [&]() SLUICE_REQUIRES(mutex_) {
    for (; !found && seen < lines_.size(); ++seen) {
      if (lines_[seen].find(text) != std::string::npos) found = lines_[seen];
    }
    return found || ended_;
  });
  return found;
}

int Process::CountLines(std::string_view text) const {
  MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(lines_.begin(), lines_.end(), [&](const auto& line) {
    return line.find(text) != std::string::npos;
  }));
}

std::string Process::Output() const {
  MutexLock lock(mutex_);
  std::string all;
  for (const std::string& line : lines_) all += line + '\n';
  return all + partial_;
}

void Process::ReadOutput() {
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t n = read(output_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    Append({buffer.data(), static_cast<std::size_t>(n)});
  }
  MutexLock lock(mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

void Process::Append(std::string_view text) {
  MutexLock lock(mutex_);
  for (const char c : text) {
    if (c != '\n') {
      partial_ += c;
      continue;
    }
    lines_.push_back(std::move(partial_));
    partial_.clear();
  }
  changed_.NotifyAll();
}

}  // namespace sluice::test
