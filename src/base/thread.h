// A named thread that is joined when its owner dies. The name (at most 15 bytes) shows in top,
// gdb and perf.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace sluice {

class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void()> body);
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = default;

  // Waits for the body to return. Does nothing on a thread that was never started.
  void Join();

  // Lets the thread go on by itself, until the process ends. For a body that is stuck in a call
  // that cannot be ended; it must own all that it uses.
  void Detach();

 private:
  std::jthread thread_;
};

}  // namespace sluice
