// Metrics and the page that shows them.
#include "metrics/metrics_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(MetricsRegistry_SameNameAndLabels, AreOneCounter) {
  MetricsRegistry metrics;
  Counter& counter = metrics.CounterFor("a_total", "help", {{"x", "1"}, {"y", "2"}});
  EXPECT_EQ(&counter, &metrics.CounterFor("a_total", "other", {{"y", "2"}, {"x", "1"}}));
  EXPECT_NE(&counter, &metrics.CounterFor("a_total", "help", {{"x", "1"}}));
  EXPECT_NE(&counter, &metrics.CounterFor("b_total", "help", {{"x", "1"}, {"y", "2"}}));
}

TEST(MetricsRegistry_ManyCounters, KeepApart) {
  MetricsRegistry metrics;
  std::vector<Counter*> counters;
  for (std::uint64_t i = 0; i < 100; ++i) {
    counters.push_back(&metrics.CounterFor("a_total", "help", {{"i", std::to_string(i)}}));
    counters.back()->Increment(i);
  }
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(i, counters[i]->Value());
}

TEST(Counter_ManyThreads, LosesNothing) {
  MetricsRegistry metrics;
  Counter& counter = metrics.CounterFor("a_total", "help");
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1'000; ++n) counter.Increment();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(40'000U, counter.Value());
}

TEST(Gauge_SetAndAdd, ShowsTheSum) {
  MetricsRegistry metrics;
  Gauge& gauge = metrics.GaugeFor("depth", "How deep.", {{"loop", "0"}});
  EXPECT_EQ(&gauge, &metrics.GaugeFor("depth", "other", {{"loop", "0"}}));
  gauge.Set(5);
  gauge.Add(-1.5);
  EXPECT_THAT(metrics.Render(), HasSubstr("# HELP depth How deep.\n"
                                          "# TYPE depth gauge\n"
                                          "depth{loop=\"0\"} 3.5\n"));
}

TEST(MetricsRegistry_Render, IsPrometheusText) {
  MetricsRegistry metrics;
  metrics.CounterFor("sluice_checks_total", "Checks.", {{"rule", "a\"b\\c\nd"}}).Increment(3);
  const std::string page = metrics.Render();
  EXPECT_THAT(page, HasSubstr("# HELP sluice_checks_total Checks.\n"));
  EXPECT_THAT(page, HasSubstr("# TYPE sluice_checks_total counter\n"));
  EXPECT_THAT(page, HasSubstr("sluice_checks_total{rule=\"a\\\"b\\\\c\\nd\"} 3\n"));
}

}  // namespace
}  // namespace sluice
