#include "config/settings_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <string>

#include "base/secret.h"
#include "config/scalar_parser.h"
#include "config/setting_values.h"

namespace sluice {
namespace {

Result<void> SetRedisTimeout(Settings& settings, std::string_view text) {
  return SetDuration(settings.redis_timeout, text, std::chrono::milliseconds(1),
                     std::chrono::minutes(1), "a duration from 1ms to 60s, such as 10ms");
}

Result<void> SetDrain(Settings& settings, std::string_view text) {
  return SetDuration(settings.drain, text, std::chrono::milliseconds(1), std::chrono::minutes(10),
                     "a duration from 1ms to 10m, such as 5s");
}

Result<void> SetLogLevel(Settings& settings, std::string_view text) {
  return SetWord(settings.log_level, text, {"trace", "debug", "info", "warn", "error", "off"});
}

Result<void> SetLogFormat(Settings& settings, std::string_view text) {
  return SetWord(settings.log_format, text, {"text", "json"});
}

Result<void> SetThreads(Settings& settings, std::string_view text) {
  if (text == "auto") {
    settings.threads = 0;
    return {};
  }
  const auto threads = ParseNumber<std::size_t>(text);
  if (!threads || *threads < 1 || *threads > 256) {
    return NotAllowed(text, "auto, or a whole number from 1 to 256");
  }
  settings.threads = *threads;
  return {};
}

Result<void> SetSocketMode(Settings& settings, std::string_view text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || text.size() < 3 || mode > 0777) {
    return NotAllowed(text, "permissions in octal, from 0000 to 0777, such as 0660");
  }
  settings.grpc_socket_mode = mode;
  return {};
}

Result<void> SetGrpcEngine(Settings& settings, std::string_view text) {
  return SetWord(settings.grpc_engine, text, {"http2", "grpc"});
}

Result<void> SetMaxConnections(Settings& settings, std::string_view text) {
  return SetCount(settings.max_connections, text, 2, 1'000'000);
}

Result<void> SetHttpMaxConnections(Settings& settings, std::string_view text) {
  if (text == "auto") {
    settings.http_max_connections = 0;
    return {};
  }
  if (!SetCount(settings.http_max_connections, text, 1, 1'000'000)) {
    return NotAllowed(text, "auto, or a whole number from 1 to 1000000");
  }
  return {};
}

Result<void> SetMaxConnectionAge(Settings& settings, std::string_view text) {
  if (text == "none") {
    settings.max_connection_age = Duration::zero();
    return {};
  }
  return SetDuration(settings.max_connection_age, text, std::chrono::seconds(1),
                     std::chrono::days(7), "none, or a duration from 1s to 7d, such as 30m");
}

Result<void> SetAdmin(Settings& settings, std::string_view text) {
  if (text != "auto" && text != "off") {
    if (const auto address = Address::Parse(text); !address) {
      return InvalidArgument(address.error().message + ", or auto, or off");
    }
  }
  settings.admin = text;
  return {};
}

// Of the two ways to give the token, the later one wins.
Result<void> SetAdminToken(Settings& settings, std::string_view text) {
  if (auto valid = ValidateSecret(text); !valid) return valid;
  settings.admin_token = text;
  settings.admin_token_file.clear();
  return {};
}

Result<void> SetAdminTokenFile(Settings& settings, std::string_view text) {
  settings.admin_token.clear();
  return SetSecretFile(settings.admin_token_file, text);
}

Result<void> SetAdminIdentities(Settings& settings, std::string_view text) {
  settings.admin_identities.clear();
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) return NotAllowed(text, "names separated by commas");
    auto identity = ParseIdentity(text.substr(begin, end - begin));
    if (!identity) return identity.error();
    settings.admin_identities.push_back(std::move(*identity));
    begin = end + 1;
  }
  return {};
}

Result<void> SetUnmatched(Settings& settings, std::string_view text) {
  if (text != "allow" && text != "deny") return NotAllowed(text, "allow or deny");
  settings.unmatched = text == "allow" ? Unmatched::kAllow : Unmatched::kDeny;
  return {};
}

Result<void> SetFleetShare(Settings& settings, std::string_view text) {
  settings.fleet_share = ParseNumber<double>(text);
  if (text == "auto") return {};
  if (!settings.fleet_share || !(*settings.fleet_share >= 0.001 && *settings.fleet_share <= 1)) {
    return NotAllowed(text, "auto, or a number from 0.001 to 1");
  }
  return {};
}

Result<void> SetNearLimitRatio(Settings& settings, std::string_view text) {
  const auto ratio = ParseNumber<double>(text);
  if (!ratio || !(*ratio > 0 && *ratio <= 1)) return NotAllowed(text, "a number above 0, up to 1");
  settings.envoy.near_limit_ratio = *ratio;
  return {};
}

Result<void> SetResponseHeaders(Settings& settings, std::string_view text) {
  const auto is_allowed = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; };
  std::string_view rest = text;
  for (std::string* name : {&settings.envoy.limit_header, &settings.envoy.remaining_header,
                            &settings.envoy.reset_header}) {
    const auto comma = rest.find(',');
    const bool is_last = name == &settings.envoy.reset_header;
    *name = rest.substr(0, comma);
    if (name->empty() || !std::all_of(name->begin(), name->end(), is_allowed) ||
        is_last != (comma == std::string_view::npos)) {
      return NotAllowed(text, "three names of letters, digits, - and _, separated by commas");
    }
    rest.remove_prefix(std::min(rest.size(), name->size() + 1));
  }
  return {};
}

Result<void> SetMaxKeys(Settings& settings, std::string_view text) {
  return SetCount(settings.max_keys, text, 1, 1'000'000'000);
}

Result<void> SetMaxMemory(Settings& settings, std::string_view text) {
  return SetBytes(settings.max_memory, text, std::size_t{1} << 20, std::size_t{1} << 40,
                  "a size from 1MiB to 1024GiB, such as 256MiB");
}

// Sets a member from a value of its kind.
template <auto kMember, auto kSet>
Result<void> Set(Settings& settings, std::string_view text) {
  return kSet(settings.*kMember, text);
}

template <auto kMember, auto kSet>
Result<void> SetEnvoy(Settings& settings, std::string_view text) {
  return kSet(settings.envoy.*kMember, text);
}

constexpr std::array kTable{
    Setting{"rules", "--rules", "SLUICE_RULES", "DIR", "none",
            "directory of rule files (*.yaml); none: every request is unmatched",
            Set<&Settings::rules_directory, SetText>},
    Setting{"redis.url", "--redis", "SLUICE_REDIS", "URL", "none",
            "the shared store: redis://[user:password@]host[:port][/db], unix://path, "
            "redis+sentinel://host,host/master, redis+cluster://host,host, or with rediss for TLS; "
            "none: the embedded store, for one server alone",
            Set<&Settings::redis_url, SetText>},
    Setting{
        "redis.password_file", "--redis-password-file", "SLUICE_REDIS_PASSWORD_FILE", "FILE",
        "none",
        "file that holds Redis' password, instead of one in redis.url; read again when it changes",
        Set<&Settings::redis_password_file, SetSecretFile>},
    Setting{"redis.timeout", "--redis-timeout", "SLUICE_REDIS_TIMEOUT", "TIME", "10ms",
            "how long a check waits for Redis before on_store_failure decides", SetRedisTimeout},
    Setting{"redis.tls.ca", "--redis-tls-ca", "SLUICE_REDIS_TLS_CA", "FILE", "none",
            "authorities (PEM) that sign Redis' certificates; none: those of the system",
            Set<&Settings::redis_tls_ca, SetFile>},
    Setting{"redis.tls.certificate", "--redis-tls-certificate", "SLUICE_REDIS_TLS_CERTIFICATE",
            "FILE", "none", "certificate chain (PEM) that this server presents to Redis",
            Set<&Settings::redis_tls_certificate, SetFile>},
    Setting{"redis.tls.key", "--redis-tls-key", "SLUICE_REDIS_TLS_KEY", "FILE", "none",
            "private key (PEM) of that certificate", Set<&Settings::redis_tls_key, SetFile>},
    Setting{"redis.tls.server_name", "--redis-tls-server-name", "SLUICE_REDIS_TLS_SERVER_NAME",
            "NAME", "none",
            "the name that Redis' certificates must have; none: the host connected to",
            Set<&Settings::redis_tls_server_name, SetText>},
    Setting{"threads", "--threads", "SLUICE_THREADS", "COUNT", "auto",
            "io threads, each with its own connection to Redis; auto: 2, or 1 on a single core; "
            "more threads help with TLS and with answers that do not need Redis",
            SetThreads},
    Setting{"grpc.listen", "--grpc", "SLUICE_GRPC", "ADDR", "0.0.0.0:8081",
            "where gRPC listens: host:port, [IPv6]:port or unix:PATH; port 0 chooses a free port",
            Set<&Settings::grpc, SetAddress>},
    Setting{"grpc.socket_mode", "--grpc-socket-mode", "SLUICE_GRPC_SOCKET_MODE", "MODE", "none",
            "permissions of gRPC's unix socket, in octal; write permission is permission to call "
            "(0660: the server's group, too); none: the umask decides",
            SetSocketMode},
    Setting{"grpc.engine", "--grpc-engine", "SLUICE_GRPC_ENGINE", "WORD", "http2",
            "http2 (Sluice's own server, several times faster) or grpc (gRPC's server)",
            SetGrpcEngine},
    Setting{"http.listen", "--http", "SLUICE_HTTP", "ADDR", "0.0.0.0:8080",
            "where HTTP listens (/v1/check, /v1/auth, /healthz, /readyz, /metrics); as --grpc",
            Set<&Settings::http, SetAddress>},
    Setting{"http.max_connections", "--http-max-connections", "SLUICE_HTTP_MAX_CONNECTIONS",
            "COUNT", "auto",
            "how many of max_connections are for HTTP: as many requests as proxies may have in "
            "progress at a time; auto: a quarter",
            SetHttpMaxConnections},
    Setting{"tls.certificate", "--tls-certificate", "SLUICE_TLS_CERTIFICATE", "FILE", "none",
            "certificate chain (PEM) for gRPC, HTTP and admin.listen on TCP; read again when it "
            "changes; none: no TLS",
            Set<&Settings::tls_certificate, SetFile>},
    Setting{"tls.key", "--tls-key", "SLUICE_TLS_KEY", "FILE", "none",
            "private key (PEM) of that certificate", Set<&Settings::tls_key, SetFile>},
    Setting{"tls.client_ca", "--tls-client-ca", "SLUICE_TLS_CLIENT_CA", "FILE", "none",
            "authorities (PEM) that sign callers' certificates; every caller then needs one",
            Set<&Settings::tls_client_ca, SetFile>},
    Setting{"max_connections", "--max-connections", "SLUICE_MAX_CONNECTIONS", "COUNT", "100000",
            "maximum number of connections of gRPC and HTTP together, as far as the limit of open "
            "files permits",
            SetMaxConnections},
    Setting{"max_connection_age", "--max-connection-age", "SLUICE_MAX_CONNECTION_AGE", "TIME",
            "none",
            "callers reconnect after about this time, which balances them over a fleet behind one "
            "address; none: connections have no age limit",
            SetMaxConnectionAge},
    Setting{"drain", "--drain", "SLUICE_DRAIN", "TIME", "5s",
            "after SIGTERM: how long callers have to disconnect and calls to finish", SetDrain},
    Setting{"log.level", "--log-level", "SLUICE_LOG_LEVEL", "LEVEL", "info",
            "trace, debug, info, warn, error or off; SIGHUP reloads it from the file", SetLogLevel},
    Setting{"log.format", "--log-format", "SLUICE_LOG_FORMAT", "WORD", "text",
            "text, or json: one object per line", SetLogFormat},
    Setting{"admin.listen", "--admin", "SLUICE_ADMIN", "ADDR", "auto",
            "address for operator calls (explain, list, reset, reload): as --grpc (TCP needs "
            "admin.token_file or admin.identities), auto (a unix socket that only the server's "
            "user may open) or off",
            SetAdmin},
    Setting{"admin.token_file", "--admin-token-file", "SLUICE_ADMIN_TOKEN_FILE", "FILE", "none",
            "file with the admin token, which grants admin calls and /rules on all addresses; "
            "read again when it changes",
            SetAdminTokenFile},
    Setting{"", "", "SLUICE_ADMIN_TOKEN", "TOKEN", "none", "the admin token itself", SetAdminToken},
    Setting{"admin.identities", "--admin-identities", "SLUICE_ADMIN_IDENTITIES", "NAMES", "none",
            "names in client certificates (tls.client_ca), such as dns:ops.example, that grant the "
            "same "
            "as the admin token; separated by commas",
            SetAdminIdentities},
    Setting{"unmatched", "--unmatched", "SLUICE_UNMATCHED", "WORD", "allow",
            "allow or deny: requests that no rule matches, unless their domain sets it",
            SetUnmatched},
    Setting{
        "fleet_share", "--fleet-share", "SLUICE_FLEET_SHARE", "SHARE", "auto",
        "this server's share of every limit while Redis is away: auto (servers count each other "
        "in Redis, and a server is not ready until it has been counted) or a number",
        SetFleetShare},
    Setting{"ready_needs_redis", "--ready-needs-redis", "SLUICE_READY_NEEDS_REDIS", "BOOL", "false",
            "true or false: whether /readyz fails whenever Redis is away",
            Set<&Settings::ready_needs_redis, SetFlag>},
    Setting{"max_keys", "--max-keys", "SLUICE_MAX_KEYS", "COUNT", "1000000",
            "maximum number of counters in the embedded store", SetMaxKeys},
    Setting{
        "max_memory", "--max-memory", "SLUICE_MAX_MEMORY", "SIZE", "256MiB",
        "maximum memory of these counters, in KiB, MiB or GiB; a sliding log takes 24 bytes for "
        "each check admitted, a slot's holder 160",
        SetMaxMemory},
    Setting{"envoy.rules", "--envoy-rules", "SLUICE_ENVOY_RULES", "DIR", "none",
            "directory of rule files of Envoy's rate limit service, which is served in addition to "
            "Sluice's own; none: it is not served",
            SetEnvoy<&EnvoySettings::rules_directory, SetText>},
    Setting{"envoy.merge_domains", "--envoy-merge-domains", "SLUICE_ENVOY_MERGE_DOMAINS", "BOOL",
            "false", "true or false: whether several of those files may define one domain",
            SetEnvoy<&EnvoySettings::merge_domains, SetFlag>},
    Setting{"envoy.shadow_mode", "--envoy-shadow-mode", "SLUICE_ENVOY_SHADOW_MODE", "BOOL", "false",
            "true or false: whether all requests of Envoy are counted but allowed",
            SetEnvoy<&EnvoySettings::shadow_mode, SetFlag>},
    Setting{"envoy.quota_mode", "--envoy-quota-mode", "SLUICE_ENVOY_QUOTA_MODE", "BOOL", "false",
            "true or false: whether all of Envoy's limits are in quota_mode",
            SetEnvoy<&EnvoySettings::quota_mode, SetFlag>},
    Setting{"envoy.count_denied", "--envoy-count-denied", "SLUICE_ENVOY_COUNT_DENIED", "BOOL",
            "true", "true or false: whether a request over one of Envoy's limits is counted",
            SetEnvoy<&EnvoySettings::count_denied, SetFlag>},
    Setting{"envoy.near_limit_ratio", "--envoy-near-limit-ratio", "SLUICE_ENVOY_NEAR_LIMIT_RATIO",
            "RATIO", "0.8", "the part of a limit above which metrics count hits as near it",
            SetNearLimitRatio},
    Setting{"envoy.dynamic_metadata", "--envoy-dynamic-metadata", "SLUICE_ENVOY_DYNAMIC_METADATA",
            "BOOL", "false", "true or false: whether answers to Envoy carry dynamic metadata",
            SetEnvoy<&EnvoySettings::dynamic_metadata, SetFlag>},
    Setting{"envoy.response_headers", "--envoy-response-headers", "SLUICE_ENVOY_RESPONSE_HEADERS",
            "NAMES", "none",
            "headers of answers to Envoy: RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset, or "
            "three other names for them",
            SetResponseHeaders},
};

}  // namespace

std::span<const Setting> SettingsTable() { return kTable; }

}  // namespace sluice
