#include "tools/signal_queue.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace sluice::tools {
namespace {

constexpr int kSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

bool Ignored(int number) {
  struct sigaction action {};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalQueue::SignalQueue() {
  sigset_t queued;
  sigemptyset(&queued);
  for (const int number : kSignals) {
    if (!Ignored(number)) sigaddset(&queued, number);
  }
  sigset_t blocked = queued;
  sigaddset(&blocked, SIGPIPE);  // a closed stderr must not end the process
  pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
  fd_ = signalfd(-1, &queued, SFD_CLOEXEC | SFD_NONBLOCK);
}

SignalQueue::~SignalQueue() { close(fd_); }

std::optional<SignalQueue::Signal> SignalQueue::WaitUntil(SteadyTime deadline) {
  for (;;) {
    if (const auto signal = Next()) return signal;
    const auto left = std::chrono::ceil<std::chrono::nanoseconds>(deadline - SteadyNow());
    if (left <= left.zero()) return std::nullopt;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec timeout = {.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    pollfd readable = {.fd = fd_, .events = POLLIN, .revents = 0};
    ppoll(&readable, 1, &timeout, nullptr);
  }
}

std::optional<SignalQueue::Signal> SignalQueue::Next() {
  signalfd_siginfo info{};
  if (read(fd_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return Signal{.number = static_cast<int>(info.ssi_signo),
                .from_terminal = info.ssi_code == SI_KERNEL};
}

}  // namespace sluice::tools
