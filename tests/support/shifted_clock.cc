// A library to preload: changes the wall clock of a process, but not its monotonic clock. An
// environment variable sets the time:
//   SLUICE_CLOCK_SHIFT  seconds that are added to the time; may be negative
//   SLUICE_CLOCK_FILE   a file whose 8 bytes are these seconds; they may change at any time
//   FROZEN_CLOCK_FILE   a file whose 8 bytes are the time in µs; it changes only with the file
//
// libfaketime does not work with redis-server's allocator (libfaketime's issue 130). This library
// makes system calls directly, because other functions might call the library again while libraries
// are still being loaded.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

volatile const std::int64_t* shared_shift = nullptr;
volatile const std::int64_t* frozen = nullptr;

void Share(const char* variable, volatile const std::int64_t*& place) {
  const char* const path = std::getenv(variable);
  if (path == nullptr) return;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  void* const shared = mmap(nullptr, sizeof *place, PROT_READ, MAP_SHARED, file, 0);
  if (shared != MAP_FAILED) place = static_cast<const std::int64_t*>(shared);
  close(file);
}

[[gnu::constructor]] void ShareAll() {
  Share("SLUICE_CLOCK_FILE", shared_shift);
  Share("FROZEN_CLOCK_FILE", frozen);
}

long Shift() {
  if (shared_shift != nullptr) return *shared_shift;
  const char* const shift = std::getenv("SLUICE_CLOCK_SHIFT");
  return shift != nullptr ? std::atol(shift) : 0;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  const bool shifted = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && shifted && frozen != nullptr) {
    *time = {*frozen / 1'000'000, *frozen % 1'000'000 * 1000};
  } else if (result == 0 && shifted) {
    time->tv_sec += Shift();
  }
  return static_cast<int>(result);
}

extern "C" int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

extern "C" time_t time(time_t* time) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (time != nullptr) *time = now.tv_sec;
  return now.tv_sec;
}
