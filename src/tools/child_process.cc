#include "tools/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sluice::tools {
namespace {

bool InForegroundOfTerminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal < 0) return false;
  const bool foreground = tcgetpgrp(terminal) == getpgrp();
  close(terminal);
  return foreground;
}

// Calls posix_spawnp and returns its error number.
int Spawn(const std::vector<std::string>& command, const sigset_t& mask, bool leads_group,
          pid_t& pid) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(
      &attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGMASK | (leads_group ? POSIX_SPAWN_SETPGROUP : 0)));
  const int error = posix_spawnp(&pid, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Forwards signals until the child ends.
void ForwardSignals(SignalQueue& signals, pid_t pid, int fd, bool leads_group) {
  for (;;) {
    pollfd events[] = {{fd, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (poll(events, 2, -1) < 0) continue;
    if (events[0].revents != 0) return;
    while (const auto signal = signals.Next()) {
      if (leads_group) {
        kill(-pid, signal->number);
      } else if (!signal->from_terminal) {
        kill(pid, signal->number);
      }
    }
  }
}

}  // namespace

Result<int> RunChild(const std::vector<std::string>& command, SignalQueue& signals) {
  // If SIGCHLD were ignored, the kernel would reap the child and its exit status would be lost.
  std::signal(SIGCHLD, SIG_DFL);
  const bool leads_group = !InForegroundOfTerminal();
  pid_t pid = -1;
  if (const int error = Spawn(command, signals.mask_before(), leads_group, pid); error != 0) {
    return Error{error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal,
                 fmt::format("{} cannot be run: {}", command[0], std::strerror(error))};
  }
  // Debian's header for pidfd_open does not compile as C++.
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) {
    const int error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return Error{ErrorCode::kInternal, fmt::format("pidfd_open: {}", std::strerror(error))};
  }
  ForwardSignals(signals, pid, fd, leads_group);
  siginfo_t end{};
  while (waitid(P_PIDFD, static_cast<id_t>(fd), &end, WEXITED) != 0 && errno == EINTR) {
  }
  close(fd);
  return end.si_code == CLD_EXITED ? end.si_status : 128 + end.si_status;
}

}  // namespace sluice::tools
