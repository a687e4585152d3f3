// A fixture for tests that provoke each error of a Redis store and compare it with the error's row
// in docs/redis.md. A test's name begins with the error's word.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/redis/redis_store.h"
#include "tests/store/blocking_check.h"
#include "tests/support/captured_log.h"
#include "tests/support/wait_until.h"

namespace sluice::test {

// A row of the table of errors.
struct ManualRow {
  std::string outcome;  // what happens to the checks
  std::string log;      // text that the log line contains
};

// The rows by the error's word: the label `kind` on the metrics page.
inline std::map<std::string, ManualRow> RowsOfTheManual() {
  std::map<std::string, ManualRow> rows;
  std::ifstream manual(SLUICE_SOURCE_DIR "/docs/redis.md");
  bool in_table = false;
  for (std::string line; std::getline(manual, line);) {
    if (line.starts_with("| `kind`")) in_table = true;
    if (!line.starts_with('|')) in_table = false;
    if (!in_table || !line.starts_with("| `") || line.starts_with("| `kind`")) continue;
    std::vector<std::string> cells;  // the first is empty
    for (std::size_t at = 0, end = 0; end != line.npos; at = end + 1) {
      end = line.find('|', at);
      cells.push_back(line.substr(at, end - at));
    }
    const auto quoted = [](const std::string& cell) {
      const std::size_t begin = cell.find('`') + 1;
      return cell.substr(begin, cell.rfind('`') - begin);
    };
    rows[quoted(cells[1])] = {.outcome = cells[3].substr(1), .log = quoted(cells[4])};
  }
  return rows;
}

class RedisErrors : public testing::Test {
 protected:
  static constexpr FixedWindow kMany{.limit = 1'000'000, .window = std::chrono::minutes(10)};
  static constexpr std::chrono::seconds kTimeout{20};

  // Two io threads: messages about the server are logged once, not once per thread.
  RedisErrors() { threads_.Start(); }

  void Connect(const std::string& url) {
    store_ = std::make_unique<RedisStore>(
        threads_, RedisUrl::Parse(url).value(),
        RedisStore::Options{.timeout = kTimeout, .silence = kTimeout, .metrics = &metrics_});
  }
  void ConnectAndWait(const std::string& url) {
    Connect(url);
    ASSERT_TRUE(store_->WaitUntilReady(kTimeout));
  }

  // Runs a check. Returns its failure, or nullopt if it is decided.
  std::optional<StoreFailure> Check(std::size_t thread = 0) {
    BlockingCheck check({{"sluice:{a}:k", kMany}});
    check.deadline = SteadyNow() + kTimeout;
    const auto failure = check.RunOn(*store_, threads_.loop(thread)).failure();
    if (failure) any_failed_ = true;
    return failure;
  }

  // Runs several checks on each io thread. Expects that all of them fail with `failure`, or are
  // decided if it is nullopt.
  void CheckOften(std::optional<StoreFailure> failure) {
    for (int i = 0; i < 4; ++i) EXPECT_EQ(Check(i % 2), failure);
  }
  // Runs checks on each io thread until the error has been counted.
  void CheckUntilCounted(const std::string& word) {
    EXPECT_TRUE(WaitUntil(kTimeout, [&] {
      Check(0);
      Check(1);
      return Count(word) > 0;
    }));
  }

  double Count(const std::string& word) const {
    const std::string series = "sluice_redis_errors_total{kind=\"" + word + "\"} ";
    const std::string page = metrics_.Render();
    const std::size_t at = page.find(series);
    return at == page.npos ? -1 : std::stod(page.substr(at + series.size()));
  }

  // Expects that the error was counted, that exactly one log line has the text of the error's row,
  // and that checks have failed if the row says so. Must be called last: it destroys the store.
  void ExpectAsInTheManual(const std::string& word) {
    store_.reset();
    ASSERT_TRUE(RowsOfTheManual().contains(word)) << word;
    const auto [outcome, line] = RowsOfTheManual()[word];
    EXPECT_GT(Count(word), 0) << word;
    EXPECT_EQ(log_.CountLines(line), 1) << "of: " << line << "\n" << log_.text();
    EXPECT_EQ(any_failed_, !outcome.starts_with("nothing has run")) << outcome;
  }

  bool any_failed_ = false;
  CapturedLog log_;
  MetricsRegistry metrics_;
  net::IoThreads threads_{2};
  std::unique_ptr<RedisStore> store_;
};

}  // namespace sluice::test
