// Three sluiced that know the size of their fleet, on a Redis that can be stopped and restarted
// without losing its data.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/system/fleet.h"

namespace sluice::test {

// How long Redis is down under load: --seconds of the test program.
inline std::chrono::seconds outage_length(3);

class OutageTest : public testing::Test {
 protected:
  static constexpr int kServers = 3;
  static constexpr int kCallers = 2 * kServers;  // this many checks are in flight at once
  static constexpr int kLimit = 3'000;

  // `rules`: the rules of the domain "outage".
  explicit OutageTest(const std::string& rules);

  // Sends `checks` from all callers, each one after another.
  Answers Run(const v1::CheckLimitRequest& request, int checks);

  // Sends checks to each server until it denies one, at most kLimit. On a busy machine, some
  // servers may have received fewer checks than others.
  Answers AskUntilDenied(const v1::CheckLimitRequest& request);

  // The units left at a server, or -1 if unknown.
  std::int64_t Remaining(v1::CheckLimitRequest request, int server = 0);

  // Starts Redis. Returns when all servers use it.
  void RestartRedis(const v1::CheckLimitRequest& request);

  // The sum of a series over all servers.
  double Metric(const std::string& series);

  RedisServer redis_;
  Fleet fleet_;

 private:
  bool AllDecidedByStore(const v1::CheckLimitRequest& request);
};

}  // namespace sluice::test
