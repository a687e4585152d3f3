#include "tools/load_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::tools {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

load::Plan Plan() {
  return {.keys = 100'000, .in_flight = 400, .duration = std::chrono::seconds(3)};
}

load::LoadStats Sample() {
  load::LoadStats stats;
  stats.allowed = 60;
  stats.denied = 38;
  stats.Fail({GrpcStatus::kUnavailable, "the \"store\" is down"}, 2);
  stats.sources = {0, 90, 8, 0, 0, 0};
  for (int us = 1; us <= 98; ++us) stats.latencies.Add(Duration(us));
  stats.elapsed = std::chrono::milliseconds(500);
  stats.cpu = std::chrono::microseconds(420);
  stats.messages = 100;
  return stats;
}

TEST(LoadReportText, Summary_ShowsDecisionsErrorsSourcesAndLatencies) {
  EXPECT_EQ(LoadReportText(Plan(), Sample()),
            "checks   100 in 500 ms (196/s)\n"
            "allowed  60\n"
            "denied   38\n"
            "errors   2\n"
            "         2 UNAVAILABLE, the first: the \"store\" is down\n"
            "sources  STORE 90  DENY_CACHE 8\n"
            "latency  p50 49 us  p90 89 us  p99 98 us  p99.9 98 us  max 98 us\n"
            "client   4.2 us of CPU a check, its thread 0 % busy\n");
}

TEST(LoadReportText, OnePercentOfMessagesSentLate_IsReported) {
  load::LoadStats stats = Sample();
  stats.latest = std::chrono::milliseconds(12);
  EXPECT_EQ(LatenessText(stats), "");
  stats.late = 1;
  EXPECT_THAT(LatenessText(stats), HasSubstr("sent 1 % of the messages late, by 1 ms to 12 ms"));
  EXPECT_THAT(LoadReportText(Plan(), stats), EndsWith(LatenessText(stats)));
}

TEST(LoadReportText, JsonOfAClosedLoop_HasAllFields) {
  load::LoadStats stats = Sample();
  stats.lost = "gone";
  EXPECT_EQ(
      LoadReportJson(Plan(), stats),
      R"({"rpc":"unary","checks_per_message":1,"keys":100000,"distribution":"uniform",)"
      R"("loop":"closed","in_flight":400,"target_rate":0.0,"connections":8,)"
      R"("seconds":0.5,"checks":100,"allowed":60,"denied":38,"failed":2,)"
      R"("errors":{"UNAVAILABLE":{"count":2,"first":"the \"store\" is down"}},"lost":"gone","sources":{"STORE":90,"DENY_CACHE":8},)"
      R"("checks_per_second":196.0,)"
      R"("latency_us":{"p50":49,"p90":89,"p99":98,"p99.9":98,"max":98},)"
      R"("wait_us":{"count":0,"total":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"max":0},)"
      R"("client_cpu_us_per_check":4.2})");
}

TEST(LoadReportText, JsonOfAnOpenLoopWithoutAnswers_HasAllFields) {
  load::Plan plan = Plan();
  plan.rpc = load::Rpc::kStream;
  plan.checks = 16;
  plan.zipf_exponent = 0.99;
  plan.rate = 1000;
  EXPECT_EQ(LoadReportJson(plan, {}),
            R"({"rpc":"stream","checks_per_message":16,"keys":100000,"distribution":"zipf",)"
            R"("loop":"open","in_flight":0,"target_rate":1000.0,"connections":8,)"
            R"("seconds":0.0,"checks":0,"allowed":0,"denied":0,"failed":0,)"
            R"("errors":{},"lost":"","sources":{},"checks_per_second":0.0,)"
            R"("latency_us":{"p50":0,"p90":0,"p99":0,"p99.9":0,"max":0},)"
            R"("wait_us":{"count":0,"total":0,"p50":0,"p90":0,"p99":0,"p99.9":0,"max":0},)"
            R"("client_cpu_us_per_check":0.0})");
}

TEST(LoadReportText, Progress_ShowsTimeOrChecksDone) {
  EXPECT_EQ(
      ProgressText(Plan(), {.allowed = 10, .denied = 5, .failed = 1}, std::chrono::seconds(2)),
      "2 of 3 s: 10 allowed, 5 denied, 1 errors, 8/s");
  load::Plan counted = Plan();
  counted.messages = 1000;
  EXPECT_EQ(
      ProgressText(counted, {.allowed = 10, .denied = 5, .failed = 1}, std::chrono::seconds(2)),
      "16 of 1000 checks: 10 allowed, 5 denied, 1 errors, 8/s");
}

TEST(LoadReportText, Waits_ShowCountTotalAndPercentiles) {
  load::LoadStats stats = Sample();
  for (int i = 1; i <= 4; ++i) stats.waits.Add(Duration(i * 30));
  stats.waited = Duration(300);
  EXPECT_THAT(LoadReportText(Plan(), stats),
              HasSubstr("\nwaits    4, 300 us in all"
                        "  p50 60 us  p90 120 us  p99 120 us  p99.9 120 us  max 120 us\n"));
  EXPECT_THAT(LoadReportJson(Plan(), stats),
              HasSubstr(R"("wait_us":{"count":4,"total":300,"p50":60,"p90":120,)"));
}

}  // namespace
}  // namespace sluice::tools
