// The paths of admin sockets, and directories that are not safe for them.
#include "base/admin_address.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

Address Tcp(std::uint16_t port) { return {.host = "127.0.0.1", .port = port, .unix_path = {}}; }

class AdminAddressTest : public testing::Test {
 protected:
  AdminAddressTest() { setenv("XDG_RUNTIME_DIR", root_.c_str(), 1); }
  ~AdminAddressTest() override { unsetenv("XDG_RUNTIME_DIR"); }

  const test::TempDir dir_;
  const std::string root_ = dir_.path();
  const std::string place_ = root_ + "/sluice";
};

TEST_F(AdminAddressTest, Path_FollowsFromTheGrpcAddress) {
  EXPECT_EQ("unix:/run/a.sock.admin",
            AdminAddressOf({.host = {}, .unix_path = "/run/a.sock"})->ToString());
  EXPECT_EQ("unix:" + place_ + "/sluiced-8081.admin", AdminAddressOf(Tcp(8081))->ToString());
  unsetenv("XDG_RUNTIME_DIR");
  const std::string place =
      geteuid() == 0 ? "/run/sluice" : "/tmp/sluice-" + std::to_string(geteuid());
  EXPECT_EQ("unix:" + place + "/sluiced-8081.admin", AdminAddressOf(Tcp(8081))->ToString());
}

TEST_F(AdminAddressTest, Path_HasTheHost_IfItIsAnotherLoopbackAddress) {
  const auto name = [this](const std::string& host) {
    const auto admin = AdminAddressOf({.host = host, .port = 8081, .unix_path = {}});
    return admin->unix_path.substr(place_.size());
  };
  EXPECT_EQ("/sluiced-127.0.0.2-8081.admin", name("127.0.0.2"));
  EXPECT_EQ("/sluiced-127.1.0.1-8081.admin", name("127.1.0.1"));
  for (const char* const host :
       {"localhost", "::1", "0.0.0.0", "::", "10.0.0.2", "127.evil.test", "sluice.example"}) {
    EXPECT_EQ("/sluiced-8081.admin", name(host)) << host;
  }
}

TEST_F(AdminAddressTest, PathTooLongForASocket_IsAnError) {
  EXPECT_FALSE(AdminAddressOf({.host = {}, .unix_path = std::string(105, 'x')}));
}

TEST_F(AdminAddressTest, Make_DirectoryIsForThisUserOnly_EvenIfItWasOpenBefore) {
  for (int i = 0; i < 2; ++i) {
    chmod(place_.c_str(), 0755);
    const auto made = MakeAdminDirectory(Tcp(8081));
    ASSERT_TRUE(made) << made.error().message;
    struct stat found {};
    ASSERT_EQ(0, lstat(place_.c_str(), &found));
    EXPECT_EQ(0700U, found.st_mode & 0777U);
  }
}

TEST_F(AdminAddressTest, Make_DirectoryCannotBeCreated_FailsWithUnavailable) {
  setenv("XDG_RUNTIME_DIR", "/no/such/place", 1);
  const auto made = MakeAdminDirectory(Tcp(8081));
  ASSERT_FALSE(made);
  EXPECT_EQ(ErrorCode::kUnavailable, made.error().code);
}

TEST_F(AdminAddressTest, Check_UnsafeDirectory_IsRefused) {
  EXPECT_TRUE(CheckAdminDirectory(Tcp(8081))) << "does not exist yet";
  std::filesystem::create_directory(place_);
  chmod(place_.c_str(), 0755);
  EXPECT_FALSE(CheckAdminDirectory(Tcp(8081))) << "open to others";
  EXPECT_TRUE(CheckAdminDirectory({.host = {}, .unix_path = place_ + "/grpc"}))
      << "the user has chosen the place of a unix socket";
  std::filesystem::remove(place_);
  std::filesystem::create_directory_symlink(root_, place_);
  EXPECT_FALSE(CheckAdminDirectory(Tcp(8081))) << "a link";
  if (geteuid() != 0) return;  // only root can change a directory's owner
  std::filesystem::remove(place_);
  ASSERT_TRUE(MakeAdminDirectory(Tcp(8081)));
  ASSERT_EQ(0, chown(place_.c_str(), 4711, 4711));
  const auto checked = CheckAdminDirectory(Tcp(8081));
  ASSERT_FALSE(checked) << "another user's";
  EXPECT_EQ(ErrorCode::kPermissionDenied, checked.error().code);
}

}  // namespace
}  // namespace sluice
