#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log_writer.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The text that `write` adds to the log.
template <typename Write>
std::string Logged(const Write& write) {
  testing::internal::CaptureStderr();
  write();
  EXPECT_TRUE(FlushLog(seconds(10)));
  return testing::internal::GetCapturedStderr();
}

TEST(LogText, IsPrintableAndShort) {
  EXPECT_EQ(LogText(""), "");
  EXPECT_EQ(LogText("OOM said ~Redis~\\"), "OOM said ~Redis~\\");
  EXPECT_EQ(LogText(std::string_view("\0\n\x1b[2J\x7f\xc2\x9b", 9)),
            R"(\x00\x0a\x1b[2J\x7f\xc2\x9b)");
  EXPECT_EQ(LogText(std::string(300, 'x')), std::string(300, 'x'));
  EXPECT_EQ(LogText(std::string(301, 'x')), std::string(300, 'x') + "...");
}

// A pipe that is full until ReadUntil is called.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(0, pipe(ends_.data()));
    fcntl(ends_[1], F_SETFL, O_NONBLOCK);
    const std::string page(4'096, '.');
    while (write(ends_[1], page.data(), page.size()) > 0) ++pages_;
    fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    for (const int fd : ends_) close(fd);
  }

  int writing_end() const { return ends_[1]; }

  // Reads until `end` has arrived. Returns the text that was written after the pipe was filled.
  std::string ReadUntil(std::string_view end) {
    std::string read;
    std::array<char, 4'096> buffer;
    while (read.find(end) == std::string::npos) {
      const ssize_t got = ::read(ends_[0], buffer.data(), buffer.size());
      if (got <= 0) break;
      if (pages_-- <= 0) read.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return read;
  }

 private:
  std::array<int, 2> ends_{};
  int pages_ = 0;
};

// Redirects standard error to `fd` during its lifetime.
class StandardError {
 public:
  explicit StandardError(int fd) : before_(dup(STDERR_FILENO)) { dup2(fd, STDERR_FILENO); }
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
  }

 private:
  const int before_;
};

TEST(Log, AsJson_EveryMessageIsOneObjectOnOneLine) {
  SetUpLog("info", LogFormat::kJson);
  const std::string line = Logged([] { spdlog::warn("a \"b\"\nc \\ {}", "%v"); });
  const std::string_view end = R"("level":"warning","message":"a \"b\"\nc \\ %v"})"
                               "\n";
  EXPECT_TRUE(line.starts_with(R"({"time":"20)")) << line;
  EXPECT_TRUE(line.ends_with(end)) << line;
}

TEST(Log, InTheJournal_LinesHaveLevels) {
  const std::string lines = Logged([] {
    struct stat error {};
    ASSERT_EQ(0, fstat(STDERR_FILENO, &error));
    setenv("JOURNAL_STREAM", fmt::format("{}:{}", error.st_dev, error.st_ino).c_str(), 1);
    SetUpLog("debug");
    spdlog::debug("a");
    spdlog::info("b");
    spdlog::warn("c");
    spdlog::error("d");
  });
  setenv("JOURNAL_STREAM", "1:1", 1);
  SetUpLog("info");
  const std::string elsewhere = Logged([] { spdlog::error("e"); });
  unsetenv("JOURNAL_STREAM");
  std::string levels;
  std::istringstream all(lines + elsewhere);
  for (std::string line; std::getline(all, line);) levels += line.substr(0, 4) + line.back() + ' ';
  EXPECT_EQ(levels, "<7>2a <6>2b <4>2c <3>2d " + elsewhere.substr(0, 4) + "e ");
  EXPECT_TRUE(elsewhere.starts_with("20"));
}

TEST(Log, LevelSetLater_AppliesFromTheNextLine) {
  SetUpLog("warn");
  EXPECT_EQ(Logged([] { spdlog::debug("hidden"); }), "");
  SetLogLevel("debug");
  EXPECT_NE(Logged([] { spdlog::debug("shown"); }).find(" debug shown\n"), std::string::npos);
}

TEST(Log, BlockedStandardError_BlocksNoCaller_DroppedLinesAreReported) {
  constexpr int kLines = 50'000;
  FullPipe pipe;
  {
    const StandardError blocked(pipe.writing_end());
    SetUpLog("info");
    const SteadyTime began = SteadyNow();
    for (int i = 0; i < kLines; ++i) spdlog::info("line {}", i);
    EXPECT_LT(SteadyNow() - began, seconds(5));
    EXPECT_FALSE(FlushLog(milliseconds(1)));
    // At most one full queue and one full batch are not dropped.
    EXPECT_GE(LogDropped(), kLines - 2 * LogWriter::kMaxLines);

    const std::string first = pipe.ReadUntil("line 5000\n");
    EXPECT_NE(first.find("info line 0\n"), std::string::npos) << first.substr(0, 200);
    std::string rest;
    std::uint64_t dropped = 0;
    do {  // until the queue has room for a line
      rest += pipe.ReadUntil("\n");
      dropped = LogDropped();
      spdlog::info("at last");
    } while (LogDropped() != dropped);
    rest += pipe.ReadUntil("at last\n");
    EXPECT_NE(rest.find(" log lines were dropped\n"), std::string::npos);
    EXPECT_TRUE(FlushLog(seconds(10)));
  }
  SetUpLog("info");  // ends the thread that wrote to the pipe
}

TEST(Log, ClosedStandardError_LostLinesAreCounted) {
  std::array<int, 2> ends{};
  ASSERT_EQ(0, pipe(ends.data()));
  close(ends[0]);
  {
    const StandardError closed(ends[1]);
    SetUpLog("info");
    spdlog::info("lost");
    EXPECT_TRUE(FlushLog(seconds(10)));
    EXPECT_EQ(LogDropped(), 1U);
  }
  close(ends[1]);
  SetUpLog("info");
}

class Log_AtExit : public ::testing::Test {
 protected:
  Log_AtExit() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Log_AtExit, QueuedLines_AreWritten) {
  EXPECT_EXIT(
      {
        SetUpLog("info");
        for (int i = 0; i <= 5'000; ++i) spdlog::info("line {}", i);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "line 5000\n");
}

TEST_F(Log_AtExit, BlockedStandardError_ProcessStillExits) {
  EXPECT_EXIT(
      {
        alarm(20);  // if the child hangs, a signal ends it
        const FullPipe pipe;
        dup2(pipe.writing_end(), STDERR_FILENO);
        SetUpLog("info");
        for (int i = 0; i <= 5'000; ++i) spdlog::info("line {}", i);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice
