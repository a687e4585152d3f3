// Three sluiced that have counted each other, on a Redis that can be stopped with all it has
// counted and started again.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/system/fleet.h"

namespace sluice::test {

// How long Redis is away under load; --seconds of the test program.
inline std::chrono::seconds outage_length(3);

class OutageTest : public testing::Test {
 protected:
  static constexpr int kServers = 3;
  static constexpr int kCallers = 2 * kServers;  // so many checks are in flight at once
  static constexpr int kLimit = 3'000;

  // Of the domain "outage".
  explicit OutageTest(const std::string& rules);

  // By all callers, one after the other each.
  Answers Run(const v1::CheckLimitRequest& request, int checks);

  // Asks each server until it denies, at most kLimit times: on a busy machine callers may have
  // asked some of them less than others.
  Answers AskUntilDenied(const v1::CheckLimitRequest& request);

  // -1: not known
  std::int64_t Remaining(v1::CheckLimitRequest request, int server = 0);

  // Starts Redis; returns when all servers ask it.
  void RestartRedis(const v1::CheckLimitRequest& request);

  // The sum over all servers.
  double Metric(const std::string& series);

  RedisServer redis_;
  Fleet fleet_;

 private:
  bool AllDecidedByStore(const v1::CheckLimitRequest& request);
};

}  // namespace sluice::test
