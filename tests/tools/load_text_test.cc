#include "tools/load_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::tools {
namespace {

LoadTally Sample() {
  LoadTally tally;
  tally.allowed = 60;
  tally.denied = 38;
  tally.failed = 2;
  tally.errors[ErrorCode::kUnavailable] = {2, "the \"store\" is away"};
  for (int us = 1; us <= 98; ++us) tally.latencies.Add(Duration(us));
  tally.elapsed = std::chrono::milliseconds(500);
  return tally;
}

TEST(LoadText, Summary) {
  EXPECT_EQ(LoadText(Sample()),
            "checks   100 in 500 ms (200/s)\n"
            "allowed  60\n"
            "denied   38\n"
            "errors   2\n"
            "         2 UNAVAILABLE, the first: the \"store\" is away\n"
            "latency  p50 49 us  p90 89 us  p99 98 us  p99.9 98 us  max 98 us\n");
}

TEST(LoadText, Json) {
  EXPECT_EQ(LoadJson(Sample()),
            R"({"checks":100,"allowed":60,"denied":38,"failed":2,)"
            R"("errors":{"UNAVAILABLE":{"count":2,"first":"the \"store\" is away"}},)"
            R"("elapsed_seconds":0.500000,"rate":200.0,)"
            R"("latency_us":{"p50":49,"p90":89,"p99":98,"p99_9":98,"max":98},)"
            R"("wait_us":{"count":0,"total":0,"p50":0,"p90":0,"p99":0,"p99_9":0,"max":0}})");
}

TEST(LoadText, Waits_CountTotalAndPercentiles) {
  LoadTally tally = Sample();
  for (int i = 1; i <= 4; ++i) tally.waits.Add(Duration(i * 30));
  tally.waited = Duration(300);
  EXPECT_THAT(LoadText(tally), testing::EndsWith("\nwaits    4, 300 us in all"
                                                 "  p50 60 us  p90 120 us  p99 120 us  p99.9 120 us"
                                                 "  max 120 us\n"));
  EXPECT_THAT(LoadJson(tally),
              testing::HasSubstr(R"("wait_us":{"count":4,"total":300,"p50":60,"p90":120,)"));
}

TEST(LoadText, NothingFinished_FieldsAllThere) {
  EXPECT_EQ(LoadJson(LoadTally{}), R"({"checks":0,"allowed":0,"denied":0,"failed":0,"errors":{},)"
                                   R"("elapsed_seconds":0.000000,"rate":0.0,)"
                                   R"("latency_us":{"p50":0,"p90":0,"p99":0,"p99_9":0,"max":0},)"
                                   R"("wait_us":{"count":0,"total":0,"p50":0,"p90":0,"p99":0,)"
                                   R"("p99_9":0,"max":0}})");
}

TEST(LoadText, Progress) {
  EXPECT_EQ(ProgressText(Sample(), 1000),
            "100 of 1000 checks: 60 allowed, 38 denied, 2 errors, 200/s");
}

}  // namespace
}  // namespace sluice::tools
