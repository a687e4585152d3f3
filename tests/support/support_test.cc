// Tests of the test harness.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/support/http_get.h"
#include "tests/support/process.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Process::Options Shell(const std::string& script) {
  return {.argv = {"/bin/sh", "-c", script}, .environment = {"GREETING=hello"}};
}

TEST(ProcessTest, Output_OfBothStreams_IsReadByLine) {
  Process process(Shell("echo $GREETING; echo world >&2; printf rest"));
  EXPECT_EQ(process.Wait(seconds(10)), 0);
  EXPECT_TRUE(WaitUntil(seconds(10), [&] { return process.Output() == "hello\nworld\nrest"; }));
  EXPECT_EQ(process.CountLines("o"), 2);
}

TEST(ProcessTest, WaitForLine_LineThatNeverComes_ReturnsWhenTheOutputEnds) {
  Process process(Shell("echo one"));
  EXPECT_EQ(process.WaitForLine("one", seconds(10)), "one");
  EXPECT_FALSE(process.WaitForLine("two", seconds(10)));
}

TEST(ProcessTest, Wait_RunningProcess_TimesOutThenReturnsTheSignal) {
  Process process(Shell("exec sleep 60"));
  EXPECT_FALSE(process.Wait(milliseconds(1)));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(seconds(10)), 128 + SIGTERM);
}

TEST(ProcessTest, Destructor_RunningProcess_IsKilledAndReaped) {
  pid_t pid;
  {
    Process process(Shell("exec sleep 60"));
    pid = process.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_NE(kill(pid, 0), 0);
}

TEST(TempDirTest, Destructor_FilledDirectory_RemovesIt) {
  std::filesystem::path path;
  {
    TempDir dir;
    path = dir.path();
    EXPECT_TRUE(std::filesystem::exists(dir.Write("a/b/c", "text")));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(RedisServerTest, Kill_ThenStart_ForgetsItsKeys) {
  RedisServer server({.tcp = true, .arguments = {}});
  RedisConnection before = server.Connect();
  before.Text({"SET", "key", "value"});
  EXPECT_EQ(before.Keys(), std::vector<std::string>{"key"});
  EXPECT_EQ(before.Integer({"PTTL", "key"}), -1);
  server.Kill();
  server.Start();
  EXPECT_TRUE(server.Connect().Keys().empty());
}

TEST(HttpGetTest, NobodyListens_ThereIsNoAnswer) {
  EXPECT_EQ(HttpGet("127.0.0.1:1", "/").status, 0);
}

}  // namespace
}  // namespace sluice::test
