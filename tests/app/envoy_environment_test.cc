#include "app/envoy_environment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <fmt/format.h>

#include "config/settings.h"

namespace sluice {
namespace {

using Texts = std::vector<std::string>;

TEST(EnvoyEnvironment, SupportedVariables_BecomeFlags) {
  const std::string rules = "--envoy-rules=/srv/runtime_data/current/config";
  struct Row {
    Texts environment;
    Texts arguments;  // besides the rules
  };
  const Row rows[] = {
      {{}, {}},
      {{"GRPC_PORT=9081"}, {"--grpc=0.0.0.0:9081"}},
      {{"HOST=::1", "PORT=9080"}, {"--http=[::1]:9080"}},
      {{"GRPC_UDS=/run/ratelimit.sock", "GRPC_PORT=9081"}, {"--grpc=unix:/run/ratelimit.sock"}},
      {{"GRPC_MAX_CONNECTION_AGE=24h"}, {"--max-connection-age=86400000ms"}},
      {{"GRPC_MAX_CONNECTION_AGE=1h30m10.5s500ms"}, {"--max-connection-age=5411000ms"}},
      {{"GRPC_MAX_CONNECTION_AGE=0s"}, {}},
      {{"GRPC_MAX_CONNECTION_AGE=0"}, {}},
      {{"REDIS_URL=r:6379", "REDIS_TYPE=SINGLE"}, {"--redis=redis://r:6379"}},
      {{"REDIS_URL=r:6379", "REDIS_AUTH=p@ss", "REDIS_TLS=true"},
       {"--redis=rediss://:p%40ss@r:6379"}},
      {{"REDIS_URL=a:1,b:2", "REDIS_TYPE=CLUSTER", "REDIS_AUTH=me:pw"},
       {"--redis=redis+cluster://me:pw@a:1,b:2"}},
      {{"REDIS_URL=main,a:1,b:2", "REDIS_TYPE=SENTINEL"},
       {"--redis=redis+sentinel://a:1,b:2/main"}},
      {{"REDIS_URL=/run/redis.sock", "REDIS_SOCKET_TYPE=unix"}, {"--redis=unix:///run/redis.sock"}},
      {{"REDIS_URL=/run/redis.sock", "REDIS_AUTH=me:p@ss"},
       {"--redis=unix://me:p%40ss@/run/redis.sock"}},
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
      {{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=/dev/null",
        "GRPC_SERVER_TLS_KEY=/dev/null"},
       {"--tls-certificate=/dev/null", "--tls-key=/dev/null", "--tls-http=false"}},
      {{"GRPC_SERVER_USE_TLS=1", "GRPC_SERVER_TLS_CERT=/dev/null", "GRPC_SERVER_TLS_KEY=/dev/null",
        "GRPC_CLIENT_TLS_CACERT=/dev/null"},
       {"--tls-certificate=/dev/null", "--tls-key=/dev/null", "--tls-client-ca=/dev/null",
        "--tls-http=false"}},
      {{"GRPC_SERVER_USE_TLS=false"}, {}},
      {{"USE_PROMETHEUS=true"}, {"--metrics=0.0.0.0:9090", "--envoy-metric-names=true"}},
      {{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:19001", "PROMETHEUS_PATH=/m", "USE_STATSD=false"},
       {"--metrics=0.0.0.0:19001", "--metrics-path=/m", "--envoy-metric-names=true"}},
      {{"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=127.0.0.1:9"},
       {"--metrics=127.0.0.1:9", "--envoy-metric-names=true"}},
      {{"USE_PROMETHEUS=false", "PROMETHEUS_ADDR=:19001"}, {}},
      {{"REDIS_URL=r:6379", "REDIS_TLS=true", "REDIS_TLS_CACERT=/dev/null",
        "REDIS_TLS_CLIENT_CERT=/dev/null", "REDIS_TLS_CLIENT_KEY=/dev/null",
        "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=false"},
       {"--redis-tls-ca=/dev/null", "--redis-tls-certificate=/dev/null",
        "--redis-tls-key=/dev/null", "--redis=rediss://r:6379"}},
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

TEST(EnvoyEnvironment, Rules_AreInTheRuntimeDirectory) {
  const Texts environment{"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit"};
  EXPECT_EQ(ReadEnvoyEnvironment(environment)->arguments,
            (Texts{"--envoy-rules=/data/ratelimit/config"}));
  const auto elsewhere =
      ReadEnvoyEnvironment(Texts{"RUNTIME_ROOT=/data", "RUNTIME_APPDIRECTORY=r"});
  EXPECT_EQ(elsewhere->arguments, (Texts{"--envoy-rules=/data/r"}));
  EXPECT_TRUE(elsewhere->warnings.empty());
}

TEST(EnvoyEnvironment, VariablesWithoutEffect_CauseWarnings) {
  const Texts environment{"REDIS_POOL_SIZE=10", "STATSD_HOST=x", "CACHE_KEY_PREFIX=p",
                          "HOME=/root"};
  EXPECT_EQ(
      ReadEnvoyEnvironment(environment)->warnings,
      (Texts{"CACHE_KEY_PREFIX has no effect in sluiced",
             "REDIS_POOL_SIZE has no effect in sluiced", "STATSD_HOST has no effect in sluiced"}));
}

TEST(EnvoyEnvironment, Statsd_CausesOneWarning) {
  const Texts environment{"USE_STATSD=true", "STATSD_PORT=9125"};
  EXPECT_EQ(
      ReadEnvoyEnvironment(environment)->warnings,
      (Texts{"USE_STATSD: sluiced has no statsd; metrics are at /metrics on the HTTP port, and "
             "at PROMETHEUS_ADDR if USE_PROMETHEUS is true"}));
}

// The variables that Envoy Gateway sets in the pod of its rate limit service.
TEST(EnvoyEnvironment, VariablesOfEnvoyGateway_BecomeFlagsWithoutWarnings) {
  const Texts environment{"RUNTIME_ROOT=/data",
                          "RUNTIME_SUBDIRECTORY=ratelimit",
                          "RUNTIME_IGNOREDOTFILES=true",
                          "RUNTIME_WATCH_ROOT=false",
                          "LOG_LEVEL=info",
                          "USE_STATSD=false",
                          "STATSD_PORT=9125",
                          "USE_PROMETHEUS=true",
                          "PROMETHEUS_ADDR=:19001",
                          "CONFIG_TYPE=GRPC_XDS_SOTW",
                          "CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001",
                          "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
                          "GRPC_SERVER_USE_TLS=true",
                          "GRPC_SERVER_TLS_CERT=/dev/null",
                          "GRPC_SERVER_TLS_KEY=/dev/null",
                          "GRPC_SERVER_TLS_CA_CERT=/dev/null",
                          "CONFIG_GRPC_XDS_SERVER_USE_TLS=true",
                          "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/dev/null",
                          "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/dev/null",
                          "CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/dev/null",
                          "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
                          "REDIS_SOCKET_TYPE=tcp",
                          "REDIS_URL=redis.redis.svc:6379"};
  const EnvoyEnvironment read = ReadEnvoyEnvironment(environment).value();
  EXPECT_EQ(read.warnings, Texts());
  EXPECT_EQ(read.arguments,
            (Texts{"--envoy-xds=envoy-gateway:18001", "--envoy-xds-node-id=envoy-ratelimit",
                   "--envoy-xds-tls-ca=/dev/null", "--envoy-xds-tls-certificate=/dev/null",
                   "--envoy-xds-tls-key=/dev/null", "--envoy-xds-ready=always",
                   "--tls-certificate=/dev/null", "--tls-key=/dev/null", "--tls-http=false",
                   "--redis=redis://redis.redis.svc:6379", "--metrics=0.0.0.0:19001",
                   "--envoy-metric-names=true", "--log-level=info"}));
  EXPECT_TRUE(ReadSettings(read.arguments, {}));
}

TEST(EnvoyEnvironment, TlsFilesWithoutTls_CauseWarnings) {
  const Texts environment{"GRPC_SERVER_TLS_CERT=/dev/null", "REDIS_TLS_CACERT=/dev/null"};
  EXPECT_EQ(ReadEnvoyEnvironment(environment)->warnings,
            (Texts{"GRPC_SERVER_TLS_CERT has no effect in sluiced",
                   "REDIS_TLS_CACERT has no effect in sluiced"}));
}

// If the server ignored GRPC_AUTH_TOKEN, for example, it would lack the protection that the
// operator expects.
TEST(EnvoyEnvironment, UnsupportedProtection_IsAnError) {
  const Texts environment{"GRPC_SERVER_USE_TLS=true", "GRPC_CLIENT_TLS_SAN=edge",
                          "GRPC_AUTH_TOKEN=secret", "REDIS_TLS=true",
                          "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"};
  const auto read = ReadEnvoyEnvironment(environment);
  ASSERT_FALSE(read);
  EXPECT_EQ(
      read.error().message,
      "GRPC_SERVER_TLS_CERT: is missing; GRPC_SERVER_USE_TLS is true\n"
      "GRPC_SERVER_TLS_KEY: is missing; GRPC_SERVER_USE_TLS is true\n"
      "GRPC_CLIENT_TLS_SAN: not supported; name the caller's identity in the setting `callers`\n"
      "GRPC_AUTH_TOKEN: not supported; name the token's file in the setting `callers`\n"
      "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION: not supported; set "
      "--redis-tls-server-name to the name in the certificate");
}

TEST(EnvoyEnvironment, ValuesThatEnvoysServiceRefuses_AreErrors) {
  const Texts environment{"REDIS_TLS=yes",
                          "REDIS_TYPE=ring",
                          "REDIS_URL=r:6379",
                          "SHADOW_MODE=on",
                          "CONFIG_TYPE=GRPC_XDS_SOTW",
                          "XDS_CLIENT_BACKOFF_MAX_INTERVAL=1",
                          "GRPC_MAX_CONNECTION_AGE=1d"};
  const auto read = ReadEnvoyEnvironment(environment);
  ASSERT_FALSE(read);
  EXPECT_EQ(
      read.error().message,
      "GRPC_MAX_CONNECTION_AGE: found \"1d\"; allowed are durations such as 10s, 1m30s and 24h\n"
      "XDS_CLIENT_BACKOFF_MAX_INTERVAL: found \"1\"; allowed are durations such as 10s, 1m30s "
      "and 24h\n"
      "REDIS_TYPE: found \"ring\"; allowed are SINGLE, CLUSTER and SENTINEL\n"
      "REDIS_TLS: found \"yes\"; allowed are true and false\n"
      "SHADOW_MODE: found \"on\"; allowed are true and false");
}

}  // namespace
}  // namespace sluice
