#include "app/envoy_environment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/settings.h"

namespace sluice {
namespace {

using Texts = std::vector<std::string>;

TEST(EnvoyEnvironment, EveryVariable_BecomesItsFlag_Table) {
  const std::string rules = "--envoy-rules=/srv/runtime_data/current/config";
  struct Row {
    Texts environment;
    Texts arguments;  // besides the rules
  };
  const Row rows[] = {
      {{}, {}},
      {{"GRPC_PORT=9081"}, {"--grpc=0.0.0.0:9081"}},
      {{"HOST=::1", "PORT=9080"}, {"--http=[::1]:9080"}},
      {{"REDIS_URL=r:6379", "REDIS_TYPE=SINGLE"}, {"--redis=redis://r:6379"}},
      {{"REDIS_URL=r:6379", "REDIS_AUTH=p@ss", "REDIS_TLS=true"},
       {"--redis=rediss://:p%40ss@r:6379"}},
      {{"REDIS_URL=a:1,b:2", "REDIS_TYPE=CLUSTER", "REDIS_AUTH=me:pw"},
       {"--redis=redis+cluster://me:pw@a:1,b:2"}},
      {{"REDIS_URL=main,a:1,b:2", "REDIS_TYPE=SENTINEL"},
       {"--redis=redis+sentinel://a:1,b:2/main"}},
      {{"REDIS_URL=/run/redis.sock", "REDIS_SOCKET_TYPE=unix"}, {"--redis=unix:///run/redis.sock"}},
      {{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=X-R"},
       {"--envoy-response-headers=RateLimit-Limit,RateLimit-Remaining,X-R"}},
      {{"LIMIT_RESET_HEADER=X-R"}, {}},
      {{"MERGE_DOMAIN_CONFIG=true"}, {"--envoy-merge-domains=true"}},
      {{"SHADOW_MODE=1"}, {"--envoy-shadow-mode=true"}},
      {{"QUOTA_MODE=false"}, {"--envoy-quota-mode=false"}},
      {{"RESPONSE_DYNAMIC_METADATA=true"}, {"--envoy-dynamic-metadata=true"}},
      {{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=true"}, {"--envoy-count-denied=false"}},
      {{"NEAR_LIMIT_RATIO=0.9"}, {"--envoy-near-limit-ratio=0.9"}},
      {{"LOG_LEVEL=WARN", "LOG_FORMAT=json"}, {"--log-level=warn", "--log-format=json"}},
      {{"LOCAL_CACHE_SIZE_IN_BYTES=1000", "REDIS_SERVICE_HOST=h", "PATH=/bin", "odd"}, {}},
  };
  for (const Row& row : rows) {
    const EnvoyEnvironment read = ReadEnvoyEnvironment(row.environment).value();
    Texts arguments = read.arguments;
    EXPECT_EQ(std::erase(arguments, rules), 1u);
    EXPECT_EQ(arguments, row.arguments);
    EXPECT_TRUE(read.warnings.empty()) << read.warnings[0];
    EXPECT_TRUE(ReadSettings(read.arguments, {})) << fmt::format("{}", fmt::join(arguments, " "));
  }
}

TEST(EnvoyEnvironment, Rules_AreWhereTheRuntimeIs) {
  const Texts environment{"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit"};
  EXPECT_EQ(ReadEnvoyEnvironment(environment)->arguments,
            (Texts{"--envoy-rules=/data/ratelimit/config"}));
  const auto elsewhere =
      ReadEnvoyEnvironment(Texts{"RUNTIME_ROOT=/data", "RUNTIME_APPDIRECTORY=r"});
  EXPECT_EQ(elsewhere->arguments, (Texts{"--envoy-rules=/data/r"}));
  EXPECT_TRUE(elsewhere->warnings.empty());
}

TEST(EnvoyEnvironment, WhatMeansNothing_IsWarnedOf) {
  const Texts environment{"REDIS_POOL_SIZE=10", "STATSD_HOST=x", "CACHE_KEY_PREFIX=p",
                          "HOME=/root"};
  EXPECT_EQ(
      ReadEnvoyEnvironment(environment)->warnings,
      (Texts{"CACHE_KEY_PREFIX has no effect in sluiced",
             "REDIS_POOL_SIZE has no effect in sluiced", "STATSD_HOST has no effect in sluiced"}));
}

TEST(EnvoyEnvironment, ValuesThatThePeerDoesNotKnow_AreMistakes) {
  const Texts environment{"REDIS_TLS=yes", "REDIS_TYPE=ring", "REDIS_URL=r:6379", "SHADOW_MODE=on"};
  const auto read = ReadEnvoyEnvironment(environment);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message,
            "REDIS_TYPE: found \"ring\"; allowed are SINGLE, CLUSTER and SENTINEL\n"
            "REDIS_TLS: found \"yes\"; allowed are true and false\n"
            "SHADOW_MODE: found \"on\"; allowed are true and false");
}

}  // namespace
}  // namespace sluice
