#include "base/log_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <utility>

#include "base/mutex.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kLastWrite(1);

// Blocks all signals in this thread, and in threads it starts, until destroyed: the main thread
// handles signals.
class WithoutSignals {
 public:
  WithoutSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~WithoutSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  WithoutSignals(const WithoutSignals&) = delete;
  WithoutSignals& operator=(const WithoutSignals&) = delete;

 private:
  sigset_t before_{};
};

// Returns whether all of `text` was written.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd waiting{.fd = fd, .events = POLLOUT, .revents = 0};
      poll(&waiting, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace

struct LogWriter::State {
  explicit State(int to) : fd(to) {}

  const int fd;
  std::atomic<std::uint64_t> dropped = 0;
  Mutex mutex;
  CondVar changed;
  std::string text SLUICE_GUARDED_BY(mutex);       // the queued lines
  std::size_t lines SLUICE_GUARDED_BY(mutex) = 0;  // in text
  bool writing SLUICE_GUARDED_BY(mutex) = false;
  bool stopped SLUICE_GUARDED_BY(mutex) = false;
};

LogWriter::LogWriter(int fd) : state_(std::make_shared<State>(fd)) {
  const WithoutSignals without_signals;
  thread_ = Thread("log", [state = state_] { Run(*state); });
}

LogWriter::~LogWriter() {
  const bool written = Flush(kLastWrite);
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
    state_->changed.NotifyAll();
  }
  written ? thread_.Join() : thread_.Detach();
}

bool LogWriter::Write(std::string_view line) {
  const MutexLock lock(state_->mutex);
  if (state_->lines == kMaxLines || state_->text.size() + line.size() > kMaxBytes) {
    state_->dropped.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (state_->lines++ == 0) state_->changed.NotifyAll();
  state_->text += line;
  return true;
}

bool LogWriter::Flush(Duration timeout) {
  State& state = *state_;
  const MutexLock lock(state.mutex);
  return state.changed.WaitUntil(
      state.mutex, SteadyNow() + timeout,
      [&state]() SLUICE_REQUIRES(state.mutex) { return state.lines == 0 && !state.writing; });
}

std::uint64_t LogWriter::dropped() const { return state_->dropped.load(std::memory_order_relaxed); }

void LogWriter::Run(State& state) {
  for (;;) {
    std::string text;
    std::size_t lines = 0;
    {
      const MutexLock lock(state.mutex);
      state.writing = false;
      state.changed.NotifyAll();
      state.changed.Wait(state.mutex, [&state]() SLUICE_REQUIRES(state.mutex) {
        return state.stopped || state.lines > 0;
      });
      if (state.stopped) return;
      text.swap(state.text);
      lines = std::exchange(state.lines, 0);
      state.writing = true;
    }
    if (!WriteAll(state.fd, text)) state.dropped.fetch_add(lines, std::memory_order_relaxed);
  }
}

}  // namespace sluice
