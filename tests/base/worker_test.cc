// The thread for long tasks.
#include "base/worker.h"

#include <gtest/gtest.h>

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

TEST(Worker, Stop_WaitsForTheRunningTask_LaterTasksAreDropped) {
  Notification begun;
  bool ended = false;
  bool dropped = true;
  Worker worker;
  ASSERT_TRUE(worker.Post([&] {
    begun.Notify();
    ended = true;
  }));
  begun.Wait();
  worker.Stop();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(worker.Post([&] { dropped = false; }));
  worker.Stop();
  EXPECT_TRUE(dropped);
}

}  // namespace
}  // namespace sluice
