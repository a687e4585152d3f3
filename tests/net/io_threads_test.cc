// The assignment of connections to threads.
#include "net/io_threads.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <vector>

#include "tests/support/wait_until.h"

namespace sluice::net {
namespace {

using namespace std::chrono_literals;

void WorkForAMillisecond() {
  const SteadyTime end = SteadyNow() + 1ms;
  while (SteadyNow() < end) {
  }
}

TEST(IoThreads, RunOnEach_RunsOnEveryThreadInOrder) {
  IoThreads threads(3);
  threads.Start();
  std::vector<std::size_t> ran;
  threads.RunOnEach([&](EpollLoop& loop) {
    EXPECT_EQ(Loop::Current(), &loop);
    ran.push_back(loop.index());
  });
  EXPECT_EQ(ran, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(IoThreads, AssignConnection_ThreadsAreIdle_TakesTheOneWithTheFewestConnections) {
  IoThreads threads(3);
  std::vector<LoopAssignment> places;
  std::map<std::size_t, int> count;
  for (int i = 0; i < 30; ++i) {
    places.push_back(threads.AssignConnection());
    ++count[places.back().loop().index()];
  }
  for (const auto& [index, connections] : count) EXPECT_EQ(connections, 10) << index;

  // When connections end, their thread gets the next ones.
  std::vector<LoopAssignment> kept;
  for (auto& it : places) {
    if (it.loop().index() != 1) kept.push_back(std::move(it));
  }
  places.clear();
  for (int i = 0; i < 10; ++i) {
    kept.push_back(threads.AssignConnection());
    EXPECT_EQ(kept.back().loop().index(), 1U);
  }
}

TEST(IoThreads, AssignConnection_AvoidsABusyThread) {
  std::function<void()> work;
  IoThreads threads(2);
  threads.Start();
  work = [&] {
    WorkForAMillisecond();
    threads.loop(0).Post(work);
  };
  threads.loop(0).Post(work);
  EXPECT_TRUE(test::WaitUntil(20s, [&] { return threads.loop(0).load() > 512; }));
  std::vector<LoopAssignment> places;
  for (int i = 0; i < 5; ++i) {
    places.push_back(threads.AssignConnection());
    EXPECT_EQ(places.back().loop().index(), 1U);
  }
}

TEST(IoThreads, Load_OfAnIdleThread_FallsToZero) {
  bool stop = false;
  std::function<void()> work;
  IoThreads threads(1);
  threads.Start();
  work = [&] {
    WorkForAMillisecond();
    if (!stop) threads.loop(0).Post(work);
  };
  threads.loop(0).Post(work);
  EXPECT_TRUE(test::WaitUntil(20s, [&] { return threads.loop(0).load() > 256; }));
  threads.RunOn(0, [&](EpollLoop&) { stop = true; });
  EXPECT_TRUE(test::WaitUntil(20s, [&] { return threads.loop(0).load() == 0; }));
}

}  // namespace
}  // namespace sluice::net
