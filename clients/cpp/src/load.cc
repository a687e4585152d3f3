#include "sluice/load.h"

#include <time.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kPeriod(1);  // over which the CPU is measured

// The words of a file; none if it cannot be read.
std::vector<std::string> Words(const std::string& path) {
  std::ifstream file(path);
  return {std::istream_iterator<std::string>(file), {}};
}

// The value of a line such as "MemTotal: 1024 kB", in bytes.
double Kibibytes(const std::string& path, const std::string& name) {
  const std::vector<std::string> words = Words(path);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == name) return 1024 * std::stod(words[i + 1]);
  }
  return 0;
}

std::string OwnCgroup() {
  for (const std::string& line : Words("/proc/self/cgroup")) {
    if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3) + "/";
  }
  return "/sys/fs/cgroup/";
}

class Load {
 public:
  double Cpu() {
    const std::lock_guard lock(mutex_);
    const Seconds elapsed = Clock::now() - begin_;
    if (elapsed >= kPeriod) {
      const double before = used_;
      begin_ = Clock::now();
      used_ = CpuSeconds();
      part_ = (used_ - before) / elapsed.count() / Cpus();
    }
    return part_;
  }

  double Memory() const {
    const auto limit = Words(cgroup_ + "memory.max");
    const auto used = Words(cgroup_ + "memory.current");
    const bool is_limited = !limit.empty() && limit[0] != "max";
    const double most = is_limited ? std::stod(limit[0]) : Kibibytes("/proc/meminfo", "MemTotal:");
    return (used.empty() ? Kibibytes("/proc/self/status", "VmRSS:") : std::stod(used[0])) / most;
  }

 private:
  double CpuSeconds() const {
    const auto stat = Words(cgroup_ + "cpu.stat");  // usage_usec N …
    if (stat.size() > 1) return std::stod(stat[1]) / 1e6;
    std::timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

  double Cpus() const {
    const auto most = Words(cgroup_ + "cpu.max");  // quota and period
    if (most.size() > 1 && most[0] != "max") return std::stod(most[0]) / std::stod(most[1]);
    return std::thread::hardware_concurrency();
  }

  const std::string cgroup_ = OwnCgroup();
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();  // guarded by mutex_, like the next two
  double used_ = CpuSeconds();              // seconds
  double part_ = 0;
};

}  // namespace

std::function<bool()> Above(double cpu, double memory) {
  return [load = std::make_shared<Load>(), cpu, memory] {
    return (cpu < 1 && load->Cpu() > cpu) || (memory < 1 && load->Memory() > memory);
  };
}

}  // namespace sluice
