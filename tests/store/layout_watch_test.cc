// How long a node may take to send its slot map, on a loop whose time the test sets.
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "store/redis/cluster.h"
#include "tests/support/manual_loop.h"

namespace sluice::redis {
namespace {

using std::chrono::milliseconds;

class LayoutWatchTest : public testing::Test {
 protected:
  LayoutWatchTest() {
    cluster_.Start();
    loop_.RunUntilIdle();
    loop_.wire()->TakeSent();
    Receive("+OK\r\n", {});  // answers CLIENT SETNAME
    EXPECT_NE(loop_.wire()->TakeSent().find("SLOTS"), std::string::npos);
  }
  ~LayoutWatchTest() override { cluster_.Stop(); }

  void Receive(std::string_view bytes, Duration later) {
    loop_.RunIteration([&] { loop_.wire()->Receive(bytes); }, later);
  }
  bool IsWaiting() { return loop_.wire() != nullptr && !loop_.wire()->closed(); }

  test::ManualLoop loop_;
  ServerStatus status_{"cluster of the test", 1};
  int layouts_ = 0;
  Cluster cluster_{RedisUrl::Parse("redis+cluster://127.0.0.1:1").value(),
                   {.loop = loop_,
                    .status = status_,
                    .access = {},
                    .on_layout = [this](const std::shared_ptr<const Layout>&) { ++layouts_; }}};
};

constexpr std::string_view kMap = "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:1\r\n";

TEST_F(LayoutWatchTest, AnswerArrivesSlowly_IsRead) {
  for (const char byte : kMap.substr(0, 30)) {
    Receive(std::string_view(&byte, 1), milliseconds(100));
    ASSERT_TRUE(IsWaiting());
  }
  Receive(kMap.substr(30), milliseconds(400));
  EXPECT_EQ(layouts_, 1);
}

TEST_F(LayoutWatchTest, AnswerStops_IsGivenUpAfterHalfASecond) {
  Receive(kMap.substr(0, 10), milliseconds(400));
  loop_.RunIteration({}, milliseconds(499));
  EXPECT_TRUE(IsWaiting());
  loop_.RunIteration({}, milliseconds(2));
  EXPECT_FALSE(IsWaiting());
}

TEST_F(LayoutWatchTest, AnswerNeverEnds_IsGivenUpAfterTenSeconds) {
  Receive("*100\r\n", {});
  for (int i = 0; i < 24; ++i) Receive(":1\r\n", milliseconds(400));
  EXPECT_TRUE(IsWaiting());
  loop_.RunIteration({}, milliseconds(500));
  EXPECT_FALSE(IsWaiting());
}

}  // namespace
}  // namespace sluice::redis
