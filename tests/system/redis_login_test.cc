// sluiced's login to Redis: password, ACL user, database number and client name. A rejected login.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/wait_until.h"
#include "tests/system/fleet.h"

namespace sluice::test {
namespace {

constexpr std::chrono::seconds kTimeout(5);

constexpr char kRules[] = R"yaml(
domain: login
rules:
  - name: all
    on_store_failure: deny
    limits:
      - {algorithm: fixed_window, limit: 10, window: 1m}
)yaml";

struct Login {
  const char* name;
  std::vector<std::string> redis_arguments;
  std::string user_part;               // of the URL
  std::string path;                    // of the URL
  RedisConnection::Command own_login;  // for the test's own connection; empty: not needed
  std::string database = "0";

  friend void PrintTo(const Login& login, std::ostream* out) { *out << login.name; }
};

const Login kLogins[] = {
    {"Nobody", {}, "", "", {}},
    {"Database", {}, "", "/3", {}, "3"},
    {"Password", {"--requirepass", "open-sesame"}, ":open-sesame@", "", {"AUTH", "open-sesame"}},
    {"AclUser",
     {"--user", "sluice", "on", ">p4ss", "~sluice:*", "+@all"},
     "sluice:p4ss@",
     "/2",
     {},
     "2"},
};

class RedisLoginTest : public testing::TestWithParam<Login> {};

INSTANTIATE_TEST_SUITE_P(Logins, RedisLoginTest, testing::ValuesIn(kLogins),
                         [](const auto& param) { return std::string(param.param.name); });

v1::CheckLimitRequest AnyCheck() { return CheckOf("login", "/"); }

// What decides a check. Unspecified if the call fails.
v1::Source Decider(SluiceServer& server) {
  grpc::ClientContext context;
  v1::CheckLimitResponse response;
  v1::RateLimiter::NewStub(
      grpc::CreateChannel(server.grpc_address(), grpc::InsecureChannelCredentials()))
      ->CheckLimit(&context, AnyCheck(), &response);
  return response.source();
}

TEST_P(RedisLoginTest, CorrectLogin_UsesItsDatabaseAndClientName) {
  const Login& login = GetParam();
  RedisServer redis({.tcp = true, .arguments = login.redis_arguments});
  SluiceServer sluiced(
      {.rules = kRules,
       .redis_url = "redis://" + login.user_part + redis.tcp_address() + login.path});
  EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Decider(sluiced) == v1::SOURCE_STORE; }))
      << sluiced.process().Output();

  RedisConnection connection = redis.Connect();
  if (!login.own_login.empty()) connection.Text(login.own_login);
  connection.Text({"SELECT", login.database});
  ASSERT_EQ(connection.Keys().size(), 1u);
  EXPECT_TRUE(connection.Keys()[0].starts_with("sluice:{login/all"));
  EXPECT_NE(connection.Text({"CLIENT", "LIST"}).find("name=sluice"), std::string::npos);
}

// The arguments as `ps` shows them.
std::string CommandLineOf(const Process& process) {
  std::ifstream file("/proc/" + std::to_string(process.pid()) + "/cmdline");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(RedisSecretTest, PasswordGivenByAFlag_IsNotAmongTheVisibleArguments) {
  RedisServer redis({.tcp = true, .arguments = {"--requirepass", "open@sesame"}});
  const std::string url = "redis://:open@sesame@" + redis.tcp_address();
  const std::vector<std::string> forms[] = {{"--redis", url}, {"--redis=" + url}};
  for (const auto& flags : forms) {
    SluiceServer sluiced({.rules = kRules, .redis_url = "", .flags = flags, .environment = {}});
    EXPECT_TRUE(WaitUntil(kTimeout, [&] { return Decider(sluiced) == v1::SOURCE_STORE; }))
        << sluiced.process().Output();
    const std::string visible = CommandLineOf(sluiced.process());
    EXPECT_NE(visible.find("redis://*@" + redis.tcp_address()), std::string::npos) << visible;
    EXPECT_EQ(visible.find("open"), std::string::npos) << visible;
    EXPECT_EQ(visible.find("sesame"), std::string::npos) << visible;
  }
}

TEST(RedisSecretTest, PasswordOfTheSentinels_IsNotAmongTheVisibleArguments) {
  const std::string url = "redis+sentinel://:open@127.0.0.1:1/m?db=2&sentinel_password=sesame";
  const std::string shown = "redis+sentinel://*@127.0.0.1:1/m?*";
  const std::vector<std::string> forms[] = {{"--redis", url}, {"--redis=" + url}};
  for (const auto& flags : forms) {
    SluiceServer sluiced({.rules = kRules, .redis_url = "", .flags = flags, .environment = {}});
    const std::string visible = CommandLineOf(sluiced.process());
    EXPECT_NE(visible.find(shown), std::string::npos) << visible;
    EXPECT_EQ(visible.find("open"), std::string::npos) << visible;
    EXPECT_EQ(visible.find("sesame"), std::string::npos) << visible;
    EXPECT_EQ(sluiced.process().Output().find("sesame"), std::string::npos);
  }
}

TEST(XdsSecretTest, Headers_AreNotAmongTheVisibleArguments) {
  const std::string headers = "authorization:Bearer sesame";
  const std::vector<std::string> forms[] = {{"--envoy-xds-headers", headers},
                                            {"--envoy-xds-headers=" + headers}};
  for (auto flags : forms) {
    flags.insert(flags.end(), {"--envoy-xds", "127.0.0.1:1"});
    SluiceServer sluiced({.rules = kRules, .redis_url = "", .flags = flags, .environment = {}});
    const std::string visible = CommandLineOf(sluiced.process());
    EXPECT_NE(visible.find("--envoy-xds-headers"), std::string::npos) << visible;
    EXPECT_EQ(visible.find("sesame"), std::string::npos) << visible;
  }
}

TEST(RedisRefusalTest, WrongPassword_FallsBackAndLogsTheCauseWithoutSecrets) {
  RedisServer redis({.tcp = true, .arguments = {"--requirepass", "open-sesame"}});
  SluiceServer sluiced(
      {.rules = kRules, .redis_url = "redis://:open-barley@" + redis.tcp_address()});
  EXPECT_TRUE(sluiced.process().WaitForLine("WRONGPASS", kTimeout)) << sluiced.process().Output();
  EXPECT_EQ(Decider(sluiced), v1::SOURCE_FALLBACK);
  EXPECT_EQ(sluiced.process().Output().find("open-barley"), std::string::npos);
  EXPECT_FALSE(sluiced.process().Wait(std::chrono::milliseconds(0)));
}

}  // namespace
}  // namespace sluice::test
