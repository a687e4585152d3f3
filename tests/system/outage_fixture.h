// Three sluiced that know the size of their fleet, on a Redis that can be stopped and restarted
// without losing its data.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/system/fleet.h"

namespace sluice::test {

// How long Redis is down under load. The test program's flag --seconds sets it.
inline std::chrono::seconds outage_length(3);

class OutageTest : public testing::Test {
 protected:
  static constexpr int kServers = 3;
  static constexpr int kCallers = 2 * kServers;  // this many checks are in flight at once
  static constexpr int kLimit = 3'000;

  // `rules`: a rules file for the domain "outage".
  explicit OutageTest(const std::string& rules);

  // Sends the request `checks` times in total. Each caller waits for its answer before it sends the
  // request again.
  Answers Run(const v1::CheckLimitRequest& request, int checks);

  // Sends checks to one server after another. Each server gets checks until it denies one, but at
  // most kLimit checks. On a busy machine, some servers have received fewer checks than others, so
  // their shares of the limit have units left. AskUntilDenied uses up these units.
  Answers AskUntilDenied(const v1::CheckLimitRequest& request);

  // The remaining units in a server's answer, or -1 if the answer has no limit.
  std::int64_t Remaining(v1::CheckLimitRequest request, int server = 0);

  // Starts Redis. Returns when all servers use it.
  void RestartRedis(const v1::CheckLimitRequest& request);

  // The sum of a metric over all servers.
  double Metric(const std::string& series);

  RedisServer redis_;
  Fleet fleet_;

 private:
  bool AllDecidedByStore(const v1::CheckLimitRequest& request);
};

}  // namespace sluice::test
