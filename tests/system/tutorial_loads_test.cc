// The load tests of rate-limiting tutorials, on three servers: exactly the limit passes in each
// clock-aligned window.
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

// The results by second. The first and the last second are left out, since they were not under load
// for their whole length.
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
      EXPECT_GT(second.asked, limit) << "too little load to tell";
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

// The thousand checks are repeated as often as necessary: four threads complete them very quickly.
TEST_F(TutorialLoadsTest, FourThreadsOfThousandChecks_TwentyASecond_TwentyPassInEachSecond) {
  ExpectEachSecondPasses(20, {.callers = 4,
                              .request = [](int) { return CheckOf("tutorial", "/twenty"); },
                              .go_on = For(std::chrono::milliseconds(5'100))});
}

TEST_F(TutorialLoadsTest, SaleOfThousandASecond_FiveThousandArrivals_ThousandPassInEachSecond) {
  ExpectEachSecondPasses(1'000,
                         {.callers = 64, .checks = 25'500, .rate = 5'000, .request = [](int) {
                            return CheckOf("tutorial", "/sale");
                          }});
}

}  // namespace
}  // namespace sluice::test
