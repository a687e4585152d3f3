#include "base/thread.h"

#include <pthread.h>
#include <sys/resource.h>

namespace sluice {

Thread::Thread(std::string name, std::function<void()> body)
    : thread_([name = std::move(name), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
        body();
      }) {}

void Thread::Join() {
  if (thread_.joinable()) thread_.join();
}

void Thread::Detach() {
  if (thread_.joinable()) thread_.detach();
}

void LowerPriority() {
  constexpr int kNicer = 10;
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);  // only for this thread
}

}  // namespace sluice
