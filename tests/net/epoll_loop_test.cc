// The iterations of a loop: events run in order, and none is lost.
#include "net/epoll_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/notification.h"
#include "metrics/histogram.h"
#include "tests/net/test_protocol.h"

namespace sluice::net {
namespace {

using ::testing::ElementsAre;

// A list of events, by name.
using Journal = std::vector<std::string>;

class NamedFlush final : public Flushable {
 public:
  NamedFlush(FlushStage stage, std::string name, Journal& journal)
      : Flushable(stage), name_(std::move(name)), journal_(journal) {}

  std::function<void()> then;

 private:
  void Flush() override {
    journal_.push_back(name_);
    if (then) std::exchange(then, nullptr)();
  }

  const std::string name_;
  Journal& journal_;
};

class NamedDisposable final : public Disposable {
 public:
  NamedDisposable(std::string name, Journal& journal, std::function<void()> then = {})
      : name_(std::move(name)), journal_(journal), then_(std::move(then)) {}
  ~NamedDisposable() override {
    journal_.push_back(name_);
    if (then_) then_();
  }

 private:
  const std::string name_;
  Journal& journal_;
  const std::function<void()> then_;
};

TEST(EpollLoop, Post_FromSeveralThreads_RunsAllInEachThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2'000;
  OneIoThread io;
  std::vector<std::vector<int>> ran(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kTasks; ++i) io.loop().Post([&ran, t, i] { ran[t].push_back(i); });
      });
    }
  }
  io.Run([] {});  // runs after all tasks posted before
  for (const auto& one : ran) {
    ASSERT_EQ(one.size(), static_cast<std::size_t>(kTasks));
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
}

TEST(EpollLoop, Post_WithinATask_RunsInALaterIteration) {
  OneIoThread io;
  Journal journal;
  NamedFlush flush(FlushStage::kCallers, "flush", journal);
  Notification done;
  io.loop().Post([&] {
    journal.push_back("task");
    io.loop().RequestFlush(flush);
    io.loop().Post([&] {
      journal.push_back("posted");
      done.Notify();
    });
    journal.push_back("end");
  });
  done.Wait();
  EXPECT_THAT(journal, ElementsAre("task", "end", "flush", "posted"));
}

TEST(EpollLoop, PostLong_ManyTasks_OneOfEachKindRunsInAnIteration) {
  OneIoThread io;
  std::vector<std::pair<int, SteadyTime>> ran;
  SteadyTime headers;
  Notification done;
  const auto note = [&](int number) { ran.emplace_back(number, io.loop().now()); };
  io.loop().Post([&] {
    io.loop().PostLong(LongWork::kJson, [&] {
      note(1);
      io.loop().PostLong(LongWork::kJson, [&] {
        note(4);
        done.Notify();
      });
    });
    io.loop().PostLong(LongWork::kJson, [&] { note(2); });
    io.loop().PostLong(LongWork::kJson, [&] { note(3); });
    io.loop().PostLong(LongWork::kHeaders, [&] { headers = io.loop().now(); });
    note(0);
  });
  done.Wait();
  ASSERT_EQ(ran.size(), 5U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ran[i].first, i);
  for (int i = 1; i < 5; ++i) EXPECT_GT(ran[i].second, ran[i - 1].second) << i;
  EXPECT_EQ(headers, ran[1].second) << "tasks of another kind do not wait";
}

TEST(EpollLoop, Current_IsTheLoopOnItsThread_ElsewhereNull) {
  OneIoThread io;
  EXPECT_EQ(Loop::Current(), nullptr);
  EXPECT_EQ(io.Run([] { return Loop::Current(); }), &io.loop());
}

TEST(EpollLoop, Flush_StoresAreFlushedBeforeCallers) {
  OneIoThread io;
  Journal journal;
  NamedFlush caller(FlushStage::kCallers, "caller", journal);
  NamedFlush store(FlushStage::kStore, "store", journal);
  io.Run([&] {
    io.loop().RequestFlush(caller);
    io.loop().RequestFlush(store);
    io.loop().RequestFlush(caller);  // `caller` is flushed only once
  });
  io.Run([] {});
  EXPECT_THAT(journal, ElementsAre("store", "caller"));
}

TEST(EpollLoop, Flush_RequestedWithinAFlush_RunsInTheSameIteration_StoresFirst) {
  OneIoThread io;
  Journal journal;
  NamedFlush first(FlushStage::kCallers, "first", journal);
  NamedFlush second(FlushStage::kCallers, "second", journal);
  NamedFlush store(FlushStage::kStore, "store", journal);
  first.then = [&] {
    io.loop().RequestFlush(first);  // again, after the others
    io.loop().RequestFlush(store);
  };
  Notification next_turn;
  io.Run([&] {
    io.loop().RequestFlush(first);
    io.loop().RequestFlush(second);
    io.loop().Post([&] {
      journal.push_back("next iteration");
      next_turn.Notify();
    });
  });
  next_turn.Wait();
  EXPECT_THAT(journal, ElementsAre("first", "store", "second", "first", "next iteration"));
}

TEST(EpollLoop, DisposeLater_DestroysAfterTheFlush) {
  OneIoThread io;
  Journal journal;
  NamedFlush flush(FlushStage::kCallers, "flush", journal);
  io.Run([&] {
    auto second = [&] {
      io.loop().DisposeLater(std::make_unique<NamedDisposable>("second", journal));
    };
    io.loop().DisposeLater(std::make_unique<NamedDisposable>("first", journal, second));
    io.loop().RequestFlush(flush);
    journal.push_back("task");
  });
  io.Run([] {});
  EXPECT_THAT(journal, ElementsAre("task", "flush", "first", "second"));
}

TEST(EpollLoop, Timer_FiresBeforeTheFlushOfItsIteration) {
  OneIoThread io;
  Journal journal;
  NamedFlush flush(FlushStage::kStore, "flush", journal);
  Notification fired;
  std::unique_ptr<Timer> timer;
  io.Run([&] {
    const SteadyTime at = io.loop().now() + std::chrono::milliseconds(5);
    timer = std::make_unique<Timer>(io.loop().timers(), [&, at] {
      EXPECT_GE(io.loop().now(), at);
      journal.push_back("timer");
      io.loop().RequestFlush(flush);
      fired.Notify();
    });
    timer->Start(at);
  });
  fired.Wait();
  io.Run([&] { timer.reset(); });
  EXPECT_THAT(journal, ElementsAre("timer", "flush"));
}

TEST(EpollLoop, MeasureLateness_TaskDelaysATimer_CountsTheDelay) {
  static constexpr std::array<Histogram::Duration, 1> kBound{std::chrono::seconds(1)};
  constexpr std::chrono::milliseconds kHeldUp(20);
  Histogram lateness(kBound);
  IoThreads threads(1);
  threads.MeasureLateness(lateness);
  threads.Start();
  Notification fired;
  std::unique_ptr<Timer> timer;
  threads.RunOn(0, [&](EpollLoop& loop) {
    timer = std::make_unique<Timer>(loop.timers(), [&] { fired.Notify(); });
    timer->Start(loop.now());
    while (SteadyNow() < loop.now() + kHeldUp) {
    }
  });
  fired.Wait();
  threads.RunOn(0, [&](EpollLoop&) { timer.reset(); });
  threads.Stop();
  EXPECT_GE(lateness.Read().sum, kHeldUp);
}

// Tasks and disposed objects may own transports, whose sockets must be closed.
TEST(EpollLoop, Destructor_DropsTasksAndTheirTransports) {
  auto [ours, peer] = ConnectedPair(SocketKind::kUnix);
  TestProtocol protocol;
  {
    IoThreads threads(1);
    threads.Start();
    EpollLoop& loop = threads.loop(0);
    threads.RunOn(0, [&, &socket = ours](EpollLoop&) {
      protocol.transport = loop.Adopt(std::move(socket), FlushStage::kCallers);
      protocol.transport->Start(protocol);
    });
    threads.Stop();
    loop.Post([holds = std::shared_ptr<Transport>(std::move(protocol.transport))] {
      FAIL() << "ran after Stop";
    });
  }
  EXPECT_EQ(peer.ReadAll(), "");
}

TEST(EpollLoop, Destructor_DropsLongTasksAndTheirTransports) {
  auto [ours, peer] = ConnectedPair(SocketKind::kUnix);
  TestProtocol protocol;
  bool ran = false;
  {
    IoThreads threads(1);
    threads.Start();
    threads.RunOn(0, [&, &socket = ours](EpollLoop& loop) {
      protocol.transport = loop.Adopt(std::move(socket), FlushStage::kCallers);
      protocol.transport->Start(protocol);
      loop.PostLong(LongWork::kJson, [&] { ran = true; });
      loop.PostLong(LongWork::kJson,
                    [holds = std::shared_ptr<Transport>(std::move(protocol.transport))] {
                      FAIL() << "ran after Stop";
                    });
      loop.Stop();  // stops in the next iteration, after the first long task
    });
    threads.Stop();
  }
  EXPECT_TRUE(ran);
  EXPECT_EQ(peer.ReadAll(), "");
}

TEST(EpollLoop, Stop_EndsTheThread_EvenWithPostedTasks) {
  IoThreads threads(2);
  threads.Start();
  std::function<void()> again = [&] { threads.loop(0).Post(again); };
  threads.loop(0).Post(again);
  threads.Stop();
}

}  // namespace
}  // namespace sluice::net
