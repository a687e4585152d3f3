// Settings: their sources, and errors for invalid values.
#include "config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "store/redis/redis_url.h"
#include "tests/support/temp_dir.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Texts = std::vector<std::string>;

TEST(Settings_NothingGiven, AreTheDefaults) {
  const auto settings = ReadSettings({}, {});
  ASSERT_TRUE(settings);
  EXPECT_EQ("0.0.0.0:8081", settings->grpc.ToString());
  EXPECT_EQ("0.0.0.0:8080", settings->http.ToString());
  EXPECT_EQ("", settings->redis_url);
  EXPECT_EQ(std::chrono::milliseconds(10), settings->redis_timeout);
}

// Each block of docs/topologies.md is a complete settings file. The test replaces the names of
// other files in it with /dev/null.
TEST(Settings_ExamplesOfTheManual, AreReadAndHaveAValidRedisUrl) {
  const test::TempDir dir;
  std::ifstream manual(SLUICE_SOURCE_DIR "/docs/topologies.md");
  std::string line, block;
  int blocks = 0;
  for (bool inside = false; std::getline(manual, line);) {
    if (line.starts_with("```") && inside) {
      const std::string file = dir.Write("sluice.yaml", block);
      const auto settings = ReadSettings(Texts{"--config", file}, {});
      ASSERT_TRUE(settings) << block << settings.error().message;
      const auto url = RedisUrl::Parse(settings->redis_url);
      EXPECT_TRUE(url) << block << url.error().message;
      ++blocks;
    }
    if (line.starts_with("```")) {
      inside = !inside;
      block.clear();
      continue;
    }
    const auto named = line.find("/etc/sluice/");
    if (named != std::string::npos) line.replace(named, std::string::npos, "/dev/null");
    if (inside) block += line + "\n";
  }
  EXPECT_EQ(blocks, 4);
}

TEST(Settings_FileVariableAndFlag, VariableOverridesFile_FlagOverridesBoth) {
  const test::TempDir dir;
  const std::string file =
      dir.Write("sluice.yaml", "log: {level: warn}\nmax_keys: 7\nredis: {timeout: 20ms, url: a}\n");
  const Texts environment{"SLUICE_CONFIG=" + file, "SLUICE_MAX_KEYS=8", "SLUICE_REDIS=b",
                          "PATH=/bin"};
  const auto settings = ReadSettings(Texts{"--redis=c", "--unmatched", "deny"}, environment);
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ("warn", settings->log_level);
  EXPECT_EQ(8U, settings->max_keys);
  EXPECT_EQ("c", settings->redis_url);
  EXPECT_EQ(std::chrono::milliseconds(20), settings->redis_timeout);
  EXPECT_EQ(Unmatched::kDeny, settings->unmatched);
}

TEST(Settings_None, UndoesWhatASourceOfLowerPrecedenceSets) {
  const test::TempDir dir;
  const std::string file = dir.Write(
      "s.yaml", "redis: {url: a, password_file: /no/such}\ngrpc: {socket_mode: \"0600\"}\n");
  const auto settings =
      ReadSettings(Texts{"--config", file, "--redis", "none", "--grpc-socket-mode=none"},
                   Texts{"SLUICE_REDIS_PASSWORD_FILE=none"});
  ASSERT_TRUE(settings) << settings.error().message;
  EXPECT_EQ(settings->redis_url, "");
  EXPECT_FALSE(settings->grpc_socket_mode);
}

TEST(Settings_VariablesOfKubernetes, AreIgnored) {
  EXPECT_TRUE(ReadSettings({}, Texts{"SLUICE_SERVICE_HOST=10.0.0.1", "SLUICE_PORT=tcp://x",
                                     "SLUICE_PORT_8081_TCP_ADDR=10.0.0.1"}));
}

TEST(Settings_VariablesOfTheTool, AreIgnored) {
  EXPECT_TRUE(ReadSettings({}, Texts{"SLUICE_ADDR=127.0.0.1:8081", "SLUICE_TOKEN=sesame"}));
}

TEST(Settings_AdminToken, IsFromVariableOrFile_FlagOverridesVariable) {
  const test::TempDir dir;
  const std::string file = dir.Write("token", "from-file\n");
  const Texts variable{"SLUICE_ADMIN_TOKEN=from-variable"};
  EXPECT_EQ("from-variable", ReadSettings({}, variable)->admin_token);
  EXPECT_EQ(file, ReadSettings({}, Texts{"SLUICE_ADMIN_TOKEN_FILE=" + file})->admin_token_file);
  const auto both = ReadSettings(Texts{"--admin-token-file", file}, variable);
  EXPECT_EQ(file, both->admin_token_file);
  EXPECT_EQ("", both->admin_token);
}

TEST(Settings_WrongToken, IsNotInTheMessage) {
  const test::TempDir dir;
  const std::string file = dir.Write("token", "open sesame\n");
  for (const auto& environment :
       {Texts{"SLUICE_ADMIN_TOKEN=open sesame"}, Texts{"SLUICE_ADMIN_TOKEN_FILE=" + file}}) {
    const auto settings = ReadSettings({}, environment);
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().message, HasSubstr("found no secret"));
    EXPECT_THAT(settings.error().message, Not(HasSubstr("sesame")));
  }
}

TEST(Settings_XdsHeaders, WrongPart_IsNotInTheMessage) {
  for (const char* const headers : {"authorization sesame", "authorization:Bearer a,sesame"}) {
    const auto settings = ReadSettings(Texts{"--envoy-xds-headers", headers}, {});
    ASSERT_FALSE(settings);
    EXPECT_THAT(settings.error().message, HasSubstr("allowed is name:value, separated by commas"));
    EXPECT_THAT(settings.error().message, Not(HasSubstr("sesame")));
  }
}

TEST(Settings_FromFile, EveryErrorHasItsPlace) {
  const test::TempDir dir;
  const std::string file = dir.Write("s.yaml", "redis: {timeot: 1ms}\ngrpc: [1]\nhttp: nowhere\n");
  const auto settings = ReadSettings(Texts{"--config", file, "--max-keys", "many"}, {});
  ASSERT_FALSE(settings);
  const std::string& message = settings.error().message;
  EXPECT_THAT(message, HasSubstr(file + ":1:17: redis.timeot: no such setting"));
  EXPECT_THAT(message, HasSubstr("did you mean \"redis.timeout\"?"));
  EXPECT_THAT(
      message,
      HasSubstr(file + ":2:7: grpc: found a list; allowed is a single value or a map of settings"));
  EXPECT_THAT(message, HasSubstr(file + ":3:7: http: \"nowhere\" is not an address"));
  EXPECT_THAT(message, HasSubstr("--max-keys: found \"many\"; allowed is a whole number"));
}

TEST(Settings_FromFile, UnknownSettingUnlikeAllOthers_HasNoHint) {
  const test::TempDir dir;
  const auto settings = ReadSettings(Texts{"--config", dir.Write("s.yaml", "domain: shop\n")}, {});
  ASSERT_FALSE(settings);
  EXPECT_THAT(settings.error().message, HasSubstr("domain: no such setting; allowed are rules,"));
}

TEST(Settings_FromFile, DuplicateKeysAndYamlThatIsNotPlain_AreErrors) {
  const test::TempDir dir;
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"unmatched: deny\nunmatched: allow\n", ":2:1: unmatched: found the key a second time"},
           {"redis: {timeout: 5ms, timeout: 9ms}\n",
            ":1:23: redis.timeout: found the key a second time"},
           {"callers: {a: {token_file: t, domains: d}}\ncallers: {b: {token_file: t, domains: "
            "d}}\n",
            ":2:1: callers: found the key a second time"},
           {"callers: {a: {token_file: t, domains: d, domains: e}}\n",
            ":1:42: callers.a.domains: found the key a second time"},
           {"unmatched: deny\n---\nmax_keys: 5\n", ":3:1: found a second document"},
           {"grpc: \"127.0.0.1:1\nmax_keys: 5\n",
            ":1:7: not YAML: the quote that opens here is not closed"},
           {"redis: &it {tls: *it}\n", ":1:8: found an anchor; allowed is plain YAML"},
       }) {
    const auto settings = ReadSettings(Texts{"--config", dir.Write("s.yaml", text)}, {});
    ASSERT_FALSE(settings) << text;
    EXPECT_THAT(settings.error().message, HasSubstr(message)) << text;
  }
}

struct Wrong {
  Texts arguments;
  Texts environment;
  std::string message;
};

TEST(Settings_GrpcInFile, IsAnAddressOrAMap) {
  const test::TempDir dir;
  const auto short_form =
      ReadSettings(Texts{"--config", dir.Write("a", "grpc: 127.0.0.1:1\n")}, {});
  const auto long_form =
      ReadSettings(Texts{"--config", dir.Write("b", "grpc: {listen: 127.0.0.1:1}\n")}, {});
  ASSERT_TRUE(short_form && long_form);
  EXPECT_EQ("127.0.0.1:1", short_form->grpc.ToString());
  EXPECT_EQ("127.0.0.1:1", long_form->grpc.ToString());
}

TEST(Settings_Callers, ValidList_IsReadWithTokensIdentitiesDomainsAndRights) {
  const test::TempDir dir;
  const std::string text =
      "callers:\n"
      "  checkout: {token_file: /t, domains: shop}\n"
      "  billing: {identities: [\"dns:a\", \"ip:2001:DB8::1\"], domains: [shop, bank], may: "
      "[charge, lease]}\n"
      "  prometheus: {token_file: /p, may: metrics}\n"
      "tls: {certificate: /dev/null, key: /dev/null, client_ca: /dev/null}\n";
  const auto settings = ReadSettings(Texts{"--config", dir.Write("s.yaml", text)}, {});
  ASSERT_TRUE(settings) << settings.error().message;
  const Caller checkout{.name = "checkout", .token_file = "/t", .domains = {"shop"}};
  const Caller billing{.name = "billing",
                       .identities = {"dns:a", "ip:2001:db8::1"},
                       .domains = {"shop", "bank"},
                       .rights = {CallerRight::kCharge, CallerRight::kLease}};
  const Caller prometheus{
      .name = "prometheus", .token_file = "/p", .rights = {CallerRight::kMetrics}};
  EXPECT_EQ(settings->callers, (std::vector{checkout, billing, prometheus}));
  EXPECT_TRUE(checkout.rights.Has(CallerRight::kLease));
  EXPECT_FALSE(checkout.rights.Has(CallerRight::kMetrics)) << "needs `may: metrics`";
}

TEST(Settings_InvalidIdentity, ErrorNamesTheRightForm) {
  const test::TempDir dir;
  for (const auto& [identity, message] : std::vector<std::pair<std::string, std::string>>{
           {"checkout.example", "write \"dns:checkout.example\""},
           {"spiffe://example/billing", "write \"uri:spiffe://example/billing\""},
           {"urn:example:billing", "write \"uri:urn:example:billing\""},
           {"ops@example", "write \"email:ops@example\""},
           {"10.0.0.1", "write \"ip:10.0.0.1\""},
           {"2001:db8::1", "write \"ip:2001:db8::1\""},
           {"DNS:checkout.example", "write \"dns:checkout.example\""},
           {"dns:", "found \"dns:\"; allowed is a name with its type"},
           {"ip:localhost", "found \"ip:localhost\"; allowed is an IP address after ip:"},
       }) {
    const std::string text = "callers: {a: {identities: [\"" + identity + "\"], domains: d}}\n";
    const auto settings = ReadSettings(Texts{"--config", dir.Write("s.yaml", text)}, {});
    ASSERT_FALSE(settings) << text;
    EXPECT_THAT(settings.error().message, HasSubstr("callers.a.identities[0]: "));
    EXPECT_THAT(settings.error().message, Not(HasSubstr("needs token_file or identities")));
    EXPECT_THAT(settings.error().message, HasSubstr(message));
  }
}

TEST(Settings_CallersWrong, ErrorNamesPlaceAndAllowedValues) {
  const test::TempDir dir;
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"callers:\n", "callers: found nothing; allowed is a map of at least one caller"},
           {"callers: {}\n", "callers: found a map; allowed is a map of at least one caller"},
           {"callers: {a: b}\n",
            ":1:14: callers.a: found \"b\"; allowed is a map of token_file, identities"},
           {"callers: {a: {domains: [d]}}\n", "callers.a: needs token_file or identities"},
           {"callers: {a: {token_file: \"\", domains: d}}\n",
            "callers.a.token_file: found \"\"; allowed is a file"},
           {"callers: {a: {token_file: /t}}\n", "callers.a: needs domains"},
           {"callers: {a: {token_file: [t], domains: d}}\n",
            "callers.a.token_file: found a list; allowed is a file"},
           {"callers: {a: {token_file: /t, domains: [x, \"\"]}}\n",
            "callers.a.domains[1]: found \"\"; allowed is a text or a list of at least one text; "
            "a text must not be empty"},
           {"callers: {a: {token_file: /t, domains: []}}\n",
            "domains: found a list; allowed is a text or a list of at least one text"},
           {"callers: {a: {token_file: /t, domains: d, may: [spend]}}\n",
            "may[0]: found \"spend\"; allowed are consume, peek, charge, refund, lease, metrics"},
           {"callers: {a: {tokenfile: /t, domains: d}}\n", "did you mean \"token_file\"?"},
           {"callers: {a: {identities: \"dns:x\", domains: d}}\n",
            "callers.a: identities have no effect without tls.client_ca"},
       }) {
    const auto settings = ReadSettings(Texts{"--config", dir.Write("s.yaml", text)}, {});
    ASSERT_FALSE(settings) << text;
    EXPECT_THAT(settings.error().message, HasSubstr(message));
  }
}

TEST(Settings_WrongValue, ErrorNamesPlaceAndAllowedValues) {
  for (const auto& [arguments, environment, message] : std::vector<Wrong>{
           {{"--gprc", "x"}, {}, "--gprc: no such flag (did you mean \"--grpc\"?)"},
           {{"--admin-token", "sesame"}, {}, "--admin-token: no such flag"},
           {{"--grpc"}, {}, "--grpc: found no value after it"},
           {{"serve"}, {}, "argument 1: no such flag; allowed are --rules, "},
           {{"--verison"}, {}, "--verison: no such flag (did you mean \"--version\"?)"},
           {{"serve"}, {}, ", --config, --envoy-env, --help, --version"},
           {{}, {"SLUICE_RULS=x"}, "SLUICE_RULS: no such variable (did you mean"},
           {{}, {"SLUICE_HTTP=x"}, "SLUICE_HTTP: \"x\" is not an address"},
           {{"--redis-timeout", "5"}, {}, "--redis-timeout: found \"5\"; allowed is a duration"},
           {{"--redis-timeout", "2m"}, {}, "allowed is a duration from 1ms to 1m"},
           {{"--drain", "1d"}, {}, "--drain: found \"1d\""},
           {{"--rules="}, {}, "--rules: found \"\"; allowed is a text that is not empty"},
           {{}, {"SLUICE_REDIS="}, "SLUICE_REDIS: found \"\"; allowed is a text that is not empty"},
           {{"--fleet-share", "0"}, {}, "auto, or a number from 0.001 to 1"},
           {{"--fleet-share", "1.1"}, {}, "auto, or a number from 0.001 to 1"},
           {{"--ready-needs-redis", "yes"}, {}, "true or false"},
           {{"--fleet-share", "nan"}, {}, "auto, or a number from 0.001 to 1"},
           {{"--max-keys", "0"}, {}, "from 1 to"},
           {{"--max-memory", "1023KiB"}, {}, "from 1MiB to"},
           {{"--max-memory", "1025GiB"}, {}, "from 1MiB to"},
           {{"--max-memory", "268435456"}, {}, "such as 256MiB"},
           {{"--max-memory", "-1MiB"}, {}, "such as 256MiB"},
           {{"--max-memory", "18014398509481985KiB"}, {}, "such as 256MiB"},
           {{"--unmatched", "maybe"}, {}, "allow or deny"},
           {{"--log-level", "loud"}, {}, "trace, debug, info, warn, error or off"},
           {{"--log-format", "xml"}, {}, "--log-format: found \"xml\"; allowed is text or json"},
           {{"--admin", "all"}, {}, "--admin: \"all\" is not an address"},
           {{"--admin", "0.0.0.0:1"},
            {},
            "set admin.token_file, SLUICE_ADMIN_TOKEN or admin.identities"},
           {{"--admin-identities", "dns:a,,dns:b"}, {}, "names separated by commas"},
           {{"--admin-identities", "dns:ops"}, {}, "has no effect without tls.client_ca"},
           {{"--admin-identities", "dns:a,ops"}, {}, "write \"dns:ops\""},
           {{"--redis-password-file", "/dev/null"}, {}, "/dev/null: found no secret"},
           {{"--threads", "0"}, {}, "--threads: found \"0\"; allowed is auto, or"},
           {{"--grpc-socket-mode", "0888"}, {}, "permissions in octal"},
           {{"--grpc-socket-mode", "0660"}, {}, "grpc.socket_mode: has no effect unless"},
           {{"--grpc-socket-mode", "1777"}, {}, "from 0000 to 0777"},
           {{"--max-connection-age", "0"}, {}, "none, or a duration from 1s to 7d"},
           {{"--max-connections", "1"}, {}, "a whole number from 2 to 1000000"},
           {{"--envoy-response-headers", "a,b"}, {}, "found \"a,b\"; allowed is three names"},
           {{"--tls-certificate", "/no/such"}, {}, "/no/such cannot be read"},
           {{"--tls-certificate", "/dev/null"}, {}, "needs its private key as tls.key"},
           {{"--tls-key", "/dev/null"}, {}, "tls.key: has no effect without tls.certificate"},
           {{"--redis=rediss://h", "--redis-tls-ca", "/no/such"}, {}, "/no/such cannot be read"},
           {{"--redis=rediss://h", "--redis-tls-key", "/dev/null"},
            {},
            "redis.tls: redis.tls.certificate and redis.tls.key must be set together"},
           {{"--redis=redis://h", "--redis-tls-ca", "/dev/null"},
            {},
            "redis.tls: has no effect unless redis.url begins with rediss"},
           {{"--admin-token-file", "/no/such"}, {}, "/no/such cannot be read"},
           {{"", "x"}, {}, "argument 1: no such flag"},
           {{"--config", "/no/such"}, {}, "/no/such cannot be read: No such file or directory"},
           {{"--config", "/tmp"}, {}, "/tmp cannot be read: Is a directory"},
           {{"--tls-certificate", "/tmp"}, {}, "/tmp cannot be read: Is a directory"},
       }) {
    const auto settings = ReadSettings(arguments, environment);
    ASSERT_FALSE(settings) << message;
    EXPECT_THAT(settings.error().message, HasSubstr(message));
  }
}

TEST(Settings_FileThatCannotBeRead, IsTheOnlyError) {
  const auto settings = ReadSettings(Texts{"--config", "/no/such"}, {});
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().message, "/no/such cannot be read: No such file or directory");
}

TEST(Settings_WrongValue, SettingsThatDependOnIt_AreNotReported) {
  const auto settings =
      ReadSettings(Texts{"--tls-certificate", "/no", "--tls-key", "/dev/null"}, {});
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().message,
            "--tls-certificate: /no cannot be read: No such file or directory");
}

TEST(Settings_Help, NamesFlagsVariablesKeysAndDefaults) {
  const std::string help = DescribeSettings();
  for (const auto* word :
       {"--config", "--rules", "--redis", "redis.timeout", "SLUICE_GRPC", "--http", "log.level",
        "--fleet-share", "--unmatched", "max_keys", "--drain", "0.0.0.0:8081"}) {
    EXPECT_THAT(help, HasSubstr(word));
  }
}

}  // namespace
}  // namespace sluice
