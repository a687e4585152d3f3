#include "service/queue_helper.h"

#include <gtest/gtest.h>

#include "base/thread.h"

namespace sluice::test {
namespace {

constexpr int kEnough = 64;

void ServeAtOnce(QueueHelper& helper, int calls) {
  for (int i = 0; i < calls; ++i) helper.OnServed(true);
}

TEST(QueueHelper, CallsAnsweredAtOnce_ManyInARow_WantHelp) {
  QueueHelper helper;
  ServeAtOnce(helper, kEnough - 1);
  EXPECT_FALSE(helper.wanted());
  ServeAtOnce(helper, 1);
  EXPECT_TRUE(helper.wanted());
  EXPECT_TRUE(helper.WaitUntilWanted());
}

TEST(QueueHelper, ACallLeftToTheStore_BreaksTheStreak) {
  QueueHelper helper;
  ServeAtOnce(helper, kEnough - 1);
  helper.OnServed(false);
  ServeAtOnce(helper, kEnough - 1);
  EXPECT_FALSE(helper.wanted());
}

TEST(QueueHelper, ACallLeftToTheStore_SendsTheHelperAway) {
  QueueHelper helper;
  ServeAtOnce(helper, kEnough);
  helper.OnServed(false);
  EXPECT_FALSE(helper.wanted());
  ServeAtOnce(helper, kEnough);
  EXPECT_TRUE(helper.wanted());
}

TEST(QueueHelper, Waiting_IsWokenWhenWantedAndWhenStopped) {
  QueueHelper helper;
  int woken = 0;
  Thread waiting("waiting", [&] {
    while (helper.WaitUntilWanted()) {
      ++woken;
      helper.OnServed(false);
    }
  });
  // Each streak of the loop wakes it, and it ends the streak.
  ServeAtOnce(helper, kEnough);
  while (helper.wanted()) std::this_thread::yield();
  helper.Stop();
  waiting.Join();
  EXPECT_EQ(woken, 1);
}

}  // namespace
}  // namespace sluice::test
