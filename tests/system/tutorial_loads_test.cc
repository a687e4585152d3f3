// The load tests of rate-limiting tutorials, on three servers: each clock-aligned window admits
// exactly the limit.
#include <gtest/gtest.h>

#include <map>

#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

using Seconds = std::chrono::sys_seconds;

constexpr char kRules[] = R"yaml(
domain: tutorial
rules:
  - name: ten
    match: {endpoint: /ten}
    limits:
      - {algorithm: fixed_window, limit: 10, window: 1s, align: clock}
  - name: twenty
    match: {endpoint: /twenty}
    limits:
      - {algorithm: fixed_window, limit: 20, window: 1s, align: clock}
  - name: sale
    match: {endpoint: /sale}
    limits:
      - {algorithm: fixed_window, limit: 1000, window: 1s, align: clock}
)yaml";

struct Second {
  int asked = 0;
  int passed = 0;
};

// Counts the checks and admissions of each second. Leaves out the first and the last second, since
// the load did not fill them.
std::map<Seconds, Second> FullSeconds(const Answers& answers) {
  std::map<Seconds, Second> seconds;
  for (const Answer& answer : answers) {
    Second& second = seconds[std::chrono::floor<std::chrono::seconds>(answer.decided_at())];
    ++second.asked;
    second.passed += answer.allowed();
  }
  seconds.erase(seconds.begin());
  seconds.erase(std::prev(seconds.end()));
  return seconds;
}

std::function<bool()> For(std::chrono::milliseconds duration) {
  return [end = SteadyNow() + duration] { return SteadyNow() < end; };
}

class TutorialLoadsTest : public testing::Test {
 protected:
  void ExpectEachSecondPasses(int limit, const Load& load) {
    const Answers answers = fleet_.Run(load);
    EXPECT_EQ(CountFromStore(answers), static_cast<int>(answers.size()));
    const auto seconds = FullSeconds(answers);
    EXPECT_GE(seconds.size(), 3u);
    for (const auto& [start, second] : seconds) {
      EXPECT_GT(second.asked, limit) << "not more checks than the limit";
      EXPECT_EQ(second.passed, limit) << "of " << second.asked;
    }
  }

  RedisServer redis_;
  Fleet fleet_{{.rules = kRules}, &redis_};
};

TEST_F(TutorialLoadsTest, FiftyThreads_TenASecond_AdmitsTenInEachSecond) {
  ExpectEachSecondPasses(10, {.callers = 50,
                              .request = [](int) { return CheckOf("tutorial", "/ten"); },
                              .go_on = For(std::chrono::milliseconds(5'100))});
}

// In the tutorial, the four threads send 1,000 checks. Here they send checks for 5.1 s, because
// 1,000 checks end too soon.
TEST_F(TutorialLoadsTest, FourThreads_TwentyASecond_AdmitsTwentyInEachSecond) {
  ExpectEachSecondPasses(20, {.callers = 4,
                              .request = [](int) { return CheckOf("tutorial", "/twenty"); },
                              .go_on = For(std::chrono::milliseconds(5'100))});
}

TEST_F(TutorialLoadsTest, FiveThousandASecond_LimitThousandASecond_AdmitsThousandInEachSecond) {
  ExpectEachSecondPasses(1'000,
                         {.callers = 64, .checks = 25'500, .rate = 5'000, .request = [](int) {
                            return CheckOf("tutorial", "/sale");
                          }});
}

}  // namespace
}  // namespace sluice::test
