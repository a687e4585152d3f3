#include "tests/system/outage_fixture.h"

#include <cstring>

#include "tests/support/http_get.h"
#include "tests/support/require.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::seconds;

// Returns 0 if the page does not have the series.
double ReadSeries(const std::string& page, const std::string& series) {
  const std::size_t at = page.find("\n" + series + " ");
  return at == std::string::npos ? 0 : std::stod(page.substr(at + series.size() + 2));
}

v1::CheckLimitRequest PeekOf(v1::CheckLimitRequest request) {
  request.set_mode(v1::MODE_PEEK);
  return request;
}

}  // namespace

OutageTest::OutageTest(const std::string& rules)
    : fleet_({.rules = rules, .servers = kServers}, &redis_) {
  const bool counted =
      WaitUntil(seconds(10), [this] { return Metric("sluice_fleet_share") < 1.001; });
  EXPECT_TRUE(counted) << "the servers do not know the size of their fleet";
}

Answers OutageTest::Run(const v1::CheckLimitRequest& request, int checks) {
  return fleet_.Run(
      {.callers = kCallers, .checks = checks, .request = [&](int) { return request; }});
}

Answers OutageTest::AskUntilDenied(const v1::CheckLimitRequest& request) {
  Answers answers;
  for (int server = 0; server < kServers; ++server) {
    for (int i = 0; i < kLimit; ++i) {
      answers.push_back(fleet_.Check(request, server));
      if (!answers.back().allowed()) break;
    }
  }
  return answers;
}

std::int64_t OutageTest::Remaining(v1::CheckLimitRequest request, int server) {
  const Answer answer = fleet_.Check(PeekOf(std::move(request)), server);
  if (answer.response.limits_size() == 0) return -1;
  return static_cast<std::int64_t>(answer.response.limits(0).remaining());
}

void OutageTest::RestartRedis(const v1::CheckLimitRequest& request) {
  redis_.Start();
  EXPECT_TRUE(WaitUntil(seconds(30), [&] { return AllDecidedByStore(request); }));
}

double OutageTest::Metric(const std::string& series) {
  double sum = 0;
  for (int i = 0; i < kServers; ++i) {
    sum += ReadSeries(HttpGet(fleet_.server(i).http_address(), "/metrics").body, series);
  }
  return sum;
}

bool OutageTest::AllDecidedByStore(const v1::CheckLimitRequest& request) {
  // Asks each server twice: after Redis has made a server's first decision, some decisions are
  // still local.
  for (int i = 0; i < 2 * kServers; ++i) {
    if (!fleet_.Check(PeekOf(request), i % kServers).of_store()) return false;
  }
  return true;
}

}  // namespace sluice::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const bool known = std::strcmp(argv[i], "--seconds") == 0 && i + 1 < argc;
    sluice::test::Require(known, std::string("unknown flag or missing value: ") + argv[i]);
    sluice::test::outage_length = std::chrono::seconds(std::stoi(argv[++i]));
  }
  return RUN_ALL_TESTS();
}
