// A named thread, joined by its destructor. top, gdb and perf show the name (at most 15 bytes).
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

  // Detaches the thread, for a body that may block in an uninterruptible call. The body must own
  // everything it uses.
  void Detach();

 private:
  std::jthread thread_;
};

// Lowers the priority of the calling thread, for work that may be late. On a busy server, the
// thread then gets about a tenth of a core.
void LowerPriority();

}  // namespace sluice
