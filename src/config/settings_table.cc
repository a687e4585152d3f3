#include "config/settings_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "config/scalar_parser.h"

namespace sluice {
namespace {

Error NotAllowed(std::string_view found, std::string_view allowed) {
  return InvalidArgument(fmt::format("found \"{}\"; allowed is {}", found, allowed));
}

// The whole of `text` as a number.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<void> SetAddress(Address& address, std::string_view text) {
  const auto parsed = Address::Parse(text);
  if (!parsed) return parsed.error();
  address = *parsed;
  return {};
}

Result<void> SetRedisTimeout(Settings& settings, std::string_view text) {
  const auto timeout = ParseDuration(text);
  if (!timeout || *timeout < std::chrono::milliseconds(1) || *timeout > std::chrono::minutes(1)) {
    return NotAllowed(text, "a duration from 1ms to 60s, such as 10ms");
  }
  settings.redis_timeout = *timeout;
  return {};
}

Result<void> SetDrain(Settings& settings, std::string_view text) {
  const auto drain = ParseDuration(text);
  if (!drain || *drain > std::chrono::minutes(10)) {
    return NotAllowed(text, "a duration from 1ms to 10m, such as 5s");
  }
  settings.drain = *drain;
  return {};
}

// One of a few words.
Result<void> SetWord(std::string& setting, std::string_view text,
                     std::initializer_list<std::string_view> words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    return NotAllowed(text, fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "),
                                        *(words.end() - 1)));
  }
  setting = text;
  return {};
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

Result<void> SetGrpcEngine(Settings& settings, std::string_view text) {
  return SetWord(settings.grpc_engine, text, {"http2", "grpc"});
}

Result<void> SetMaxConnectionAge(Settings& settings, std::string_view text) {
  if (text == "none") {
    settings.max_connection_age = Duration::zero();
    return {};
  }
  const auto age = ParseDuration(text);
  if (!age || *age < std::chrono::seconds(1) || *age > std::chrono::days(7)) {
    return NotAllowed(text, "none, or a duration from 1s to 7d, such as 30m");
  }
  settings.max_connection_age = *age;
  return {};
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

// A file that must be there, so that a wrong name is told at once.
Result<void> SetFile(std::string& setting, std::string_view text) {
  if (!std::ifstream{std::string(text)}) {
    return InvalidArgument(fmt::format("{} cannot be read", text));
  }
  setting = text;
  return {};
}

// Whatever is wrong with it, a secret is not repeated.
Result<void> SetAdminToken(Settings& settings, std::string_view text) {
  const auto is_allowed = [](char c) { return c > ' ' && c < 0x7f; };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_allowed)) {
    return InvalidArgument("found no token; allowed are printable ASCII characters but spaces");
  }
  settings.admin_token = text;
  return {};
}

Result<void> SetAdminTokenFile(Settings& settings, std::string_view text) {
  std::ifstream file{std::string(text)};
  std::string token{std::istreambuf_iterator<char>(file), {}};
  if (!file) return InvalidArgument(fmt::format("{} cannot be read", text));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back()))) token.pop_back();
  if (auto set = SetAdminToken(settings, token); !set) {
    return InvalidArgument(fmt::format("in {} {}", text, set.error().message));
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

Result<void> SetReadyNeedsRedis(Settings& settings, std::string_view text) {
  if (text != "true" && text != "false") return NotAllowed(text, "true or false");
  settings.ready_needs_redis = text == "true";
  return {};
}

Result<void> SetMaxKeys(Settings& settings, std::string_view text) {
  const auto keys = ParseNumber<std::size_t>(text);
  if (!keys || *keys < 1 || *keys > 1'000'000'000) {
    return NotAllowed(text, "a whole number from 1 to 1000000000");
  }
  settings.max_keys = *keys;
  return {};
}

constexpr std::array kTable{
    Setting{"rules", "--rules", "SLUICE_RULES", "DIR", "none",
            "directory of rule files (*.yaml); none: every request is unmatched",
            [](Settings& settings, std::string_view text) -> Result<void> {
              settings.rules_directory = text;
              return {};
            }},
    Setting{"redis.url", "--redis", "SLUICE_REDIS", "URL", "none",
            "the shared store: redis://[user:password@]host[:port][/db], unix://path, "
            "redis+sentinel://host,host/master, redis+cluster://host,host, or with rediss for TLS; "
            "none: the embedded store, for one server alone",
            [](Settings& settings, std::string_view text) -> Result<void> {
              settings.redis_url = text;
              return {};
            }},
    Setting{"redis.timeout", "--redis-timeout", "SLUICE_REDIS_TIMEOUT", "TIME", "10ms",
            "how long a check waits for Redis before on_store_failure decides", SetRedisTimeout},
    Setting{"redis.tls.ca", "--redis-tls-ca", "SLUICE_REDIS_TLS_CA", "FILE", "none",
            "authorities (PEM) that sign Redis' certificates; none: those of the system",
            [](Settings& settings, std::string_view text) {
              return SetFile(settings.redis_tls_ca, text);
            }},
    Setting{"redis.tls.certificate", "--redis-tls-certificate", "SLUICE_REDIS_TLS_CERTIFICATE",
            "FILE", "none", "certificate chain (PEM) that this server shows to Redis",
            [](Settings& settings, std::string_view text) {
              return SetFile(settings.redis_tls_certificate, text);
            }},
    Setting{"redis.tls.key", "--redis-tls-key", "SLUICE_REDIS_TLS_KEY", "FILE", "none",
            "private key (PEM) of that certificate",
            [](Settings& settings, std::string_view text) {
              return SetFile(settings.redis_tls_key, text);
            }},
    Setting{"redis.tls.server_name", "--redis-tls-server-name", "SLUICE_REDIS_TLS_SERVER_NAME",
            "NAME", "none",
            "what Redis' certificates must be for; none: the host that is connected to",
            [](Settings& settings, std::string_view text) -> Result<void> {
              settings.redis_tls_server_name = text;
              return {};
            }},
    Setting{"threads", "--threads", "SLUICE_THREADS", "COUNT", "auto",
            "io threads, each with a connection of its own to Redis; auto: 2, on one core 1; more "
            "pay off for TLS and for answers that need no Redis",
            SetThreads},
    Setting{
        "grpc.listen", "--grpc", "SLUICE_GRPC", "ADDR", "0.0.0.0:8081",
        "where gRPC listens: host:port, [IPv6]:port or unix:PATH; port 0 takes a free one",
        [](Settings& settings, std::string_view text) { return SetAddress(settings.grpc, text); }},
    Setting{"grpc.engine", "--grpc-engine", "SLUICE_GRPC_ENGINE", "WORD", "http2",
            "http2 (Sluice's own server, several times faster) or grpc (gRPC's server)",
            SetGrpcEngine},
    Setting{"grpc.max_connection_age", "--grpc-max-connection-age",
            "SLUICE_GRPC_MAX_CONNECTION_AGE", "TIME", "none",
            "gRPC callers connect anew after about this time, so that a fleet behind one address "
            "shares them; none: they may stay",
            SetMaxConnectionAge},
    Setting{
        "http.listen", "--http", "SLUICE_HTTP", "ADDR", "0.0.0.0:8080",
        "where HTTP listens (/v1/check, /v1/auth, /healthz, /readyz, /metrics); as --grpc",
        [](Settings& settings, std::string_view text) { return SetAddress(settings.http, text); }},
    Setting{"tls.certificate", "--tls-certificate", "SLUICE_TLS_CERTIFICATE", "FILE", "none",
            "certificate chain (PEM) of the gRPC server; read again when it changes; none: no TLS",
            [](Settings& settings, std::string_view text) {
              return SetFile(settings.tls_certificate, text);
            }},
    Setting{
        "tls.key", "--tls-key", "SLUICE_TLS_KEY", "FILE", "none",
        "private key (PEM) of that certificate",
        [](Settings& settings, std::string_view text) { return SetFile(settings.tls_key, text); }},
    Setting{"tls.client_ca", "--tls-client-ca", "SLUICE_TLS_CLIENT_CA", "FILE", "none",
            "authorities (PEM) that sign callers' certificates; every caller then needs one",
            [](Settings& settings, std::string_view text) {
              return SetFile(settings.tls_client_ca, text);
            }},
    Setting{"drain", "--drain", "SLUICE_DRAIN", "TIME", "5s",
            "how long callers get to leave and calls to end after SIGTERM", SetDrain},
    Setting{"log.level", "--log-level", "SLUICE_LOG_LEVEL", "LEVEL", "info",
            "trace, debug, info, warn, error or off; in the file, SIGHUP reads it again",
            SetLogLevel},
    Setting{"log.format", "--log-format", "SLUICE_LOG_FORMAT", "WORD", "text",
            "text, or json: one object a line", SetLogFormat},
    Setting{"admin.listen", "--admin", "SLUICE_ADMIN", "ADDR", "auto",
            "where operators explain, list, reset and reload: an address as --grpc (TCP needs the "
            "admin token), auto (a unix socket that only the server's user may open) or off",
            SetAdmin},
    Setting{"admin.token_file", "--admin-token-file", "SLUICE_ADMIN_TOKEN_FILE", "FILE", "none",
            "file that holds the admin token, which opens admin calls on the gRPC address too",
            SetAdminTokenFile},
    Setting{"", "", "SLUICE_ADMIN_TOKEN", "TOKEN", "none", "the admin token itself", SetAdminToken},
    Setting{"unmatched", "--unmatched", "SLUICE_UNMATCHED", "WORD", "allow",
            "allow or deny: requests that no rule matches, where their domain does not say",
            SetUnmatched},
    Setting{
        "fleet_share", "--fleet-share", "SLUICE_FLEET_SHARE", "SHARE", "auto",
        "this server's share of every limit while Redis is away: auto (servers count each other "
        "in Redis, and none is ready before it has been counted) or a number",
        SetFleetShare},
    Setting{"ready_needs_redis", "--ready-needs-redis", "SLUICE_READY_NEEDS_REDIS", "BOOL", "false",
            "true or false: whether /readyz fails whenever Redis is away", SetReadyNeedsRedis},
    Setting{"max_keys", "--max-keys", "SLUICE_MAX_KEYS", "COUNT", "1000000",
            "the most counters the embedded store holds", SetMaxKeys},
};

}  // namespace

std::span<const Setting> SettingsTable() { return kTable; }

}  // namespace sluice
