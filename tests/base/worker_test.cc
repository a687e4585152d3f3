// The thread for long tasks.
#include "base/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

#include "base/notification.h"

namespace sluice {
namespace {

TEST(Worker, Tasks_RunInTheirOrder) {
  std::vector<int> ran;
  Notification done;
  Worker worker;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(worker.Post([&ran, i] { ran.push_back(i); }));
  ASSERT_TRUE(worker.Post([&done] { done.Notify(); }));
  done.Wait();
  ASSERT_EQ(50U, ran.size());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(i, ran[i]);
}

TEST(Worker, FullQueue_NextTaskIsRefused) {
  Notification begun;
  Notification go_on;
  Worker worker(2);
  ASSERT_TRUE(worker.Post([&] {
    begun.Notify();
    go_on.Wait();
  }));
  begun.Wait();
  EXPECT_TRUE(worker.Post([] {}));
  EXPECT_TRUE(worker.Post([] {}));
  EXPECT_FALSE(worker.Post([] {}));
  go_on.Notify();
}

TEST(Worker, Stop_WaitsForTheRunningTask_QueuedAndLaterTasksAreDropped) {
  Notification begun;
  Notification go_on;
  std::atomic<bool> ended = false;
  std::atomic<bool> ended_at_stop = false;
  std::atomic<bool> dropped = true;
  Worker worker(std::numeric_limits<std::size_t>::max());
  ASSERT_TRUE(worker.Post([&] {
    begun.Notify();
    go_on.Wait();
    ended = true;
  }));
  begun.Wait();
  const auto task = [&] { dropped = false; };
  EXPECT_TRUE(worker.Post(task));
  std::thread stopper([&] {
    worker.Stop();
    ended_at_stop = ended.load();
  });
  while (worker.Post(task)) std::this_thread::yield();  // until Stop has begun
  go_on.Notify();
  stopper.join();
  EXPECT_TRUE(ended_at_stop);
  EXPECT_FALSE(worker.Post(task));
  worker.Stop();
  EXPECT_TRUE(dropped);
}

}  // namespace
}  // namespace sluice
