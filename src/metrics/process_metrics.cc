#include "metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <system_error>

namespace sluice {
namespace {

// Fields of /proc/self/stat, numbered as in proc(5).
enum StatField {
  kUserTicks = 14,
  kSystemTicks = 15,
  kStartTicks = 22,
  kVirtualBytes = 23,
  kResidentPages = 24
};

double Stat(StatField field) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // field 2, which may contain any characters
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < field; ++i) fields >> skipped;
  double value = 0;
  fields >> value;
  return value;
}

double Seconds(double ticks) { return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)); }

double CpuSeconds() { return Seconds(Stat(kUserTicks) + Stat(kSystemTicks)); }

double ResidentBytes() { return Stat(kResidentPages) * static_cast<double>(sysconf(_SC_PAGESIZE)); }

double VirtualBytes() { return Stat(kVirtualBytes); }

// In seconds since the Unix epoch: the boot time plus the time from boot to the process' start.
double StartTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  double booted = 0;
  while (file >> word) {
    if (word == "btime" && file >> booted) break;
  }
  return booted == 0 ? 0 : booted + Seconds(Stat(kStartTicks));
}

double OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (error) return 0;
  const auto count = std::distance(begin(files), end(files));
  return static_cast<double>(count) - 1;  // without the descriptor of `files`
}

double MaxFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<double>::infinity()
                                         : static_cast<double>(limit.rlim_cur);
}

}  // namespace

void ShowProcess(MetricsRegistry& metrics) {
  metrics.ReadFrom("process_cpu_seconds_total", "User and system CPU time spent.", CpuSeconds);
  metrics.ReadFrom("process_resident_memory_bytes", "Resident memory.", ResidentBytes);
  metrics.ReadFrom("process_virtual_memory_bytes", "Mapped address space.", VirtualBytes);
  metrics.ReadFrom("process_open_fds", "Open files and sockets.", OpenFiles);
  metrics.ReadFrom("process_max_fds", "Limit of open files and sockets.", MaxFiles);
  metrics.ReadFrom("process_start_time_seconds", "Start time of the process, since the epoch.",
                   [at = StartTime()] { return at; });
}

}  // namespace sluice
