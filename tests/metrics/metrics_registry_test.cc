// Metrics and the page that shows them.
#include "metrics/metrics_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "metrics/process_metrics.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsRegistry_SameNameAndLabels, AreOneCounter) {
  MetricsRegistry metrics;
  Counter& counter = metrics.CounterFor("a_total", "help", {{"x", "1"}, {"y", "2"}});
  EXPECT_EQ(&counter, &metrics.CounterFor("a_total", "other", {{"y", "2"}, {"x", "1"}}));
  EXPECT_NE(&counter, &metrics.CounterFor("a_total", "help", {{"x", "1"}}));
  EXPECT_NE(&counter, &metrics.CounterFor("b_total", "help", {{"x", "1"}, {"y", "2"}}));
}

TEST(MetricsRegistry_ManyCounters, DoNotShareCells) {
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

TEST(Gauge_Hidden, IsNotOnThePageUntilItIsSet) {
  MetricsRegistry metrics;
  Gauge& gone = metrics.GaugeFor("up", "help", {{"server", "a"}});
  metrics.GaugeFor("up", "help", {{"server", "b"}}).Set(1);
  gone.Hide();
  EXPECT_THAT(metrics.Render(), AllOf(Not(HasSubstr("server=\"a\"")), HasSubstr("server=\"b\"")));
  gone.Set(1);
  EXPECT_THAT(metrics.Render(), HasSubstr("up{server=\"a\"} 1\n"));
}

constexpr std::array<Histogram::Duration, 2> kBounds{std::chrono::milliseconds(1),
                                                     std::chrono::milliseconds(10)};

TEST(Histogram_Observe, CountsAValueInTheFirstBucketThatHoldsIt) {
  MetricsRegistry metrics;
  Histogram& histogram = metrics.HistogramFor("took_seconds", "How long.", kBounds);
  EXPECT_EQ(&histogram, &metrics.HistogramFor("took_seconds", "other", kBounds));
  for (const int us : {0, 999, 1'000, 1'001, 10'000, 10'001, 5'000'000}) {
    histogram.Observe(std::chrono::microseconds(us));
  }
  EXPECT_THAT(metrics.Render(), HasSubstr("# TYPE took_seconds histogram\n"
                                          "took_seconds_count 7\n"
                                          "took_seconds_sum 5.023001\n"
                                          "took_seconds_bucket{le=\"0.001\"} 3\n"
                                          "took_seconds_bucket{le=\"0.01\"} 5\n"
                                          "took_seconds_bucket{le=\"+Inf\"} 7\n"));
}

TEST(Histogram_ManyThreads, LosesNothing) {
  MetricsRegistry metrics;
  Histogram& histogram = metrics.HistogramFor("took_seconds", "How long.", kBounds);
  std::vector<std::thread> threads;
  for (int i = 0; i < 40; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1'000; ++n) histogram.Observe(std::chrono::milliseconds(n % 2 * 2));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(20'000U, histogram.Read().counts[0]);
  EXPECT_EQ(20'000U, histogram.Read().counts[1]);
  EXPECT_DOUBLE_EQ(40, histogram.Read().sum.count());
}

TEST(MetricsRegistry_ReadFrom, ReadsTheValueWhenRendered) {
  MetricsRegistry metrics;
  double value = 1;
  metrics.ReadFrom("size", "How many.", [&] { return value; });
  metrics.ReadFrom("done_total", "How often.", [&] { return value * 10; });
  value = 2;
  EXPECT_THAT(metrics.Render(), HasSubstr("# TYPE size gauge\nsize 2\n"));
  EXPECT_THAT(metrics.Render(), HasSubstr("# TYPE done_total counter\ndone_total 20\n"));
}

TEST(MetricsRegistry_SeriesBeyondTheMaximum, ShareOneSeries) {
  MetricsRegistry metrics(/*max_series=*/3);
  for (int i = 0; i < 1'000; ++i) {
    metrics.CounterFor("a_total", "help", {{"rule", std::to_string(i)}, {"x", "y"}}).Increment();
  }
  const std::string page = metrics.Render();
  EXPECT_THAT(page, HasSubstr("a_total{rule=\"2\",x=\"y\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("a_total{rule=\"other\",x=\"other\"} 997\n"));
  EXPECT_THAT(page, Not(HasSubstr("rule=\"3\"")));
}

TEST(MetricsRegistry_RenderedWhileMetricsAreAdded, ShowsThemAfterwards) {
  MetricsRegistry metrics;
  std::thread newcomer([&] {
    for (int i = 0; i < 5'000; ++i) {
      const MetricLabels labels{{"i", std::to_string(i)}};
      metrics.CounterFor("a_total", "help", labels).Increment();
      metrics.GaugeFor("b", "help", labels).Set(1);
      metrics.HistogramFor("c_seconds", "help", kBounds, {{"i", std::to_string(i % 10)}})
          .Observe(std::chrono::milliseconds(i));
    }
  });
  for (int i = 0; i < 20; ++i) metrics.Render();
  newcomer.join();
  EXPECT_THAT(metrics.Render(), HasSubstr("a_total{i=\"4999\"} 1\n"));
}

TEST(ShowProcess_ThisProcess, HasPlausibleValues) {
  MetricsRegistry metrics;
  ShowProcess(metrics);
  std::map<std::string, double> values;
  std::istringstream page(metrics.Render());
  for (std::string line; std::getline(page, line);) {
    const std::size_t space = line.find(' ');
    if (!line.starts_with('#')) values[line.substr(0, space)] = std::stod(line.substr(space));
  }
  EXPECT_GT(values["process_resident_memory_bytes"], 1e6);
  EXPECT_GT(values["process_virtual_memory_bytes"], values["process_resident_memory_bytes"]);
  EXPECT_GE(values["process_open_fds"], 3);
  EXPECT_LE(values["process_open_fds"], values["process_max_fds"]);
  EXPECT_GE(values["process_cpu_seconds_total"], 0);
  EXPECT_LT(values["process_cpu_seconds_total"], 600);
  const double now =
      std::chrono::duration<double>(Clock::System().Now().time_since_epoch()).count();
  EXPECT_NEAR(values["process_start_time_seconds"], now, 600);
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
