#include "app/envoy_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace sluice {
namespace {

// Variables of Envoy's service. They have no effect in Sluice, unless Reader reads them. A name
// that ends in _ is a prefix.
constexpr std::array<std::string_view, 18> kMeaningless{
    "BACKEND_TYPE",
    "CACHE_KEY_PREFIX",
    "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
    "DEBUG_",
    "DISABLE_STATS",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "EXTRA_TAGS",
    "GRPC_AUTH",
    "GRPC_CLIENT_TLS_",
    "GRPC_MAX_CONNECTION_",
    "GRPC_SERVER_",
    "MEMCACHE_",
    "PROMETHEUS_",
    "REDIS_",
    "RUNTIME_",
    "STATSD_",
    "TRACING_",
    "XDS_CLIENT_BACKOFF_",
};

using Words = std::array<std::string_view, 6>;

constexpr Words kTrue{"true", "True", "TRUE", "t", "T", "1"};
constexpr Words kFalse{"false", "False", "FALSE", "f", "F", "0"};

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Percent-encodes a part of a URL.
std::string Encoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    encoded += std::isalnum(byte) ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return encoded;
}

// A duration as Go writes it, such as "24h", "1m30s" or "1.5h", in milliseconds. Units shorter
// than ms are refused.
std::optional<std::int64_t> GoMilliseconds(std::string_view text) {
  struct GoUnit {
    std::string_view name;
    double milliseconds;
  };
  // "ms" is tried before "m", because "ms" begins with "m".
  constexpr std::array<GoUnit, 4> kUnits{{{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}}};
  constexpr double kMost = 1e12;
  double sum = 0;
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, number, std::chars_format::fixed);
    if (parsed.ec != std::errc() || !(number >= 0)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    const auto* const unit =
        std::ranges::find_if(kUnits, [&](const GoUnit& it) { return text.starts_with(it.name); });
    if (unit == kUnits.end()) return std::nullopt;
    text.remove_prefix(unit->name.size());
    sum += number * unit->milliseconds;
  }
  if (sum > kMost) return std::nullopt;
  return static_cast<std::int64_t>(sum);
}

class Reader {
 public:
  explicit Reader(std::span<const std::string> environment) {
    for (const std::string_view entry : environment) {
      const auto equals = entry.find('=');
      if (equals == std::string_view::npos) continue;
      variables_[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
    }
  }

  Result<EnvoyEnvironment> Read() {
    ReadGrpcAddress();
    ReadLength("--max-connection-age", "GRPC_MAX_CONNECTION_AGE");
    ReadAddress("--http", "HOST", "PORT", "8080");
    Take("CONFIG_TYPE") == "GRPC_XDS_SOTW" ? ReadXds() : ReadRules();
    ReadTls();
    ReadRedis();
    ReadHeaders();
    ReadFlag("--envoy-merge-domains", "MERGE_DOMAIN_CONFIG");
    ReadFlag("--envoy-shadow-mode", "SHADOW_MODE");
    ReadFlag("--envoy-quota-mode", "QUOTA_MODE");
    ReadFlag("--envoy-dynamic-metadata", "RESPONSE_DYNAMIC_METADATA");
    if (TakeBool("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT") == true) {
      Add("--envoy-count-denied", "false");
    }
    ReadText("--envoy-near-limit-ratio", "NEAR_LIMIT_RATIO");
    ReadMetrics();
    ReadLog();
    WarnOfTheRest();
    if (!mistakes_.empty()) return InvalidArgument(fmt::format("{}", fmt::join(mistakes_, "\n")));
    return std::move(read_);
  }

 private:
  // Returns the value of a variable, or `otherwise` if it is absent or empty. Removes the variable,
  // so that no warning names it.
  std::string Take(const std::string& name, std::string otherwise = "") {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return otherwise;
    std::string value = std::move(found->second);
    variables_.erase(found);
    return value.empty() ? otherwise : value;
  }

  // nullopt if the variable is absent, empty or malformed.
  std::optional<bool> TakeBool(const std::string& name) {
    const std::string value = Take(name);
    if (Contains(kTrue, value)) return true;
    if (Contains(kFalse, value)) return false;
    if (!value.empty()) Mistake(name, value, "true and false");
    return std::nullopt;
  }

  void Mistake(std::string_view name, std::string_view value, std::string_view allowed) {
    mistakes_.push_back(fmt::format("{}: found \"{}\"; allowed are {}", name, value, allowed));
  }

  // Reports a variable that is not supported, although operators rely on its protection. The
  // service must not start without this protection.
  void Refuse(std::string_view name, std::string_view instead) {
    mistakes_.push_back(fmt::format("{}: not supported; {}", name, instead));
  }

  void Add(std::string_view flag, std::string_view value) {
    read_.arguments.push_back(fmt::format("{}={}", flag, value));
  }

  void ReadText(std::string_view flag, const std::string& name) {
    if (const std::string value = Take(name); !value.empty()) Add(flag, value);
  }
  void ReadFlag(std::string_view flag, const std::string& name) {
    if (const auto value = TakeBool(name)) Add(flag, *value ? "true" : "false");
  }

  void ReadAddress(std::string_view flag, const std::string& host, const std::string& port,
                   const std::string& default_port) {
    std::string on = Take(host);
    if (on.find(':') != std::string::npos) on = fmt::format("[{}]", on);
    const std::string at = Take(port);
    if (on.empty() && at.empty()) return;
    Add(flag, fmt::format("{}:{}", on.empty() ? "0.0.0.0" : on, at.empty() ? default_port : at));
  }

  // A unix socket replaces the port.
  void ReadGrpcAddress() {
    const std::string socket = Take("GRPC_UDS");
    if (socket.empty()) return ReadAddress("--grpc", "GRPC_HOST", "GRPC_PORT", "8081");
    Add("--grpc", "unix:" + socket);
  }

  // A duration. Zero means that the setting keeps its default.
  void ReadLength(std::string_view flag, const std::string& name) {
    const std::string text = Take(name);
    if (text.empty()) return;
    const auto milliseconds = GoMilliseconds(text);
    if (!milliseconds) return Mistake(name, text, "durations such as 10s, 1m30s and 24h");
    if (*milliseconds > 0) Add(flag, fmt::format("{}ms", *milliseconds));
  }

  void ReadRules() {
    const std::string root = Take("RUNTIME_ROOT", "/srv/runtime_data/current");
    const std::string below = Take("RUNTIME_SUBDIRECTORY");
    const std::string rules = Take("RUNTIME_APPDIRECTORY", "config");
    Add("--envoy-rules", fmt::format("{}{}{}/{}", root, below.empty() ? "" : "/", below, rules));
  }

  // Rules from a control plane. TLS files are used only if TLS is on. The directory of rule files
  // is ignored, although Envoy Gateway sets it.
  void ReadXds() {
    for (const char* const name :
         {"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "RUNTIME_WATCH_ROOT",
          "RUNTIME_IGNOREDOTFILES", "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL"}) {
      Take(name);
    }
    Add("--envoy-xds", Take("CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000"));
    ReadText("--envoy-xds-node-id", "CONFIG_GRPC_XDS_NODE_ID");
    ReadText("--envoy-xds-node-metadata", "CONFIG_GRPC_XDS_NODE_METADATA");
    ReadText("--envoy-xds-headers", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS");
    if (TakeBool("CONFIG_GRPC_XDS_SERVER_USE_TLS") == true) {
      Add("--envoy-xds-tls-ca", Take("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "system"));
      ReadText("--envoy-xds-tls-certificate", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT");
      ReadText("--envoy-xds-tls-key", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY");
      ReadText("--envoy-xds-tls-server-name", "CONFIG_GRPC_XDS_SERVER_TLS_SAN");
    }
    ReadLength("--envoy-xds-first-pause", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL");
    ReadLength("--envoy-xds-longest-pause", "XDS_CLIENT_BACKOFF_MAX_INTERVAL");
    ReadXdsMaxMessage();
    // If both are set, the second applies, because it is stricter.
    const bool forced = TakeBool("FORCE_START_WITHOUT_INITIAL_CONFIG") == true;
    const bool needs_rules = TakeBool("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED") == true;
    Add("--envoy-xds-ready", needs_rules ? "rules" : forced ? "always" : "first_set");
  }

  void ReadXdsMaxMessage() {
    const std::string name = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES";
    const std::string text = Take(name);
    if (text.empty()) return;
    const auto bytes = ParseNumber<std::uint32_t>(text);
    if (!bytes) return Mistake(name, text, "numbers of bytes");
    Add("--envoy-xds-max-message",
        fmt::format("{}MiB", std::max(1U, (*bytes >> 20) + (*bytes % (1U << 20) != 0 ? 1U : 0U))));
  }

  // Envoy's service has TLS only for gRPC.
  void ReadTls() {
    Take("GRPC_SERVER_TLS_CA_CERT");  // Envoy Gateway sets it, and Envoy's service ignores it
    if (TakeBool("GRPC_SERVER_USE_TLS") == true) {
      ReadTlsFile("--tls-certificate", "GRPC_SERVER_TLS_CERT");
      ReadTlsFile("--tls-key", "GRPC_SERVER_TLS_KEY");
      ReadText("--tls-client-ca", "GRPC_CLIENT_TLS_CACERT");
      Add("--tls-http", "false");
      if (!Take("GRPC_CLIENT_TLS_SAN").empty()) {
        Refuse("GRPC_CLIENT_TLS_SAN", "name the caller's identity in the setting `callers`");
      }
    }
    if (!Take("GRPC_AUTH_TOKEN").empty()) {
      Refuse("GRPC_AUTH_TOKEN", "name the token's file in the setting `callers`");
    }
  }

  void ReadTlsFile(std::string_view flag, const std::string& name) {
    const std::string file = Take(name);
    if (!file.empty()) return Add(flag, file);
    mistakes_.push_back(name + ": is missing; GRPC_SERVER_USE_TLS is true");
  }

  void ReadRedisTls() {
    ReadText("--redis-tls-ca", "REDIS_TLS_CACERT");
    ReadText("--redis-tls-certificate", "REDIS_TLS_CLIENT_CERT");
    ReadText("--redis-tls-key", "REDIS_TLS_CLIENT_KEY");
    if (TakeBool("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION") == true) {
      Refuse("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
             "set --redis-tls-server-name to the name in the certificate");
    }
  }

  void ReadRedis() {
    const std::string type = Take("REDIS_TYPE", "SINGLE");
    const bool cluster = type == "CLUSTER" || type == "cluster";
    const bool sentinel = type == "SENTINEL" || type == "sentinel";
    if (!cluster && !sentinel && type != "SINGLE" && type != "single") {
      Mistake("REDIS_TYPE", type, "SINGLE, CLUSTER and SENTINEL");
    }
    std::string hosts = Take("REDIS_URL");
    const std::string auth = Take("REDIS_AUTH");
    const bool tls = TakeBool("REDIS_TLS") == true;
    if (tls) ReadRedisTls();
    if (Take("REDIS_SOCKET_TYPE") == "unix" || hosts.starts_with('/')) {
      return Add("--redis", fmt::format("unix://{}{}", LoginOf(auth), hosts));
    }
    if (hosts.empty()) return;
    std::string scheme = tls ? "rediss" : "redis";
    if (cluster) scheme += "+cluster";
    if (sentinel) {
      // REDIS_URL begins with the master's name.
      scheme += "+sentinel";
      const auto comma = hosts.find(',');
      hosts = fmt::format("{}/{}", comma == hosts.npos ? "" : hosts.substr(comma + 1),
                          hosts.substr(0, comma));
    }
    Add("--redis", fmt::format("{}://{}{}", scheme, LoginOf(auth), hosts));
  }

  static std::string LoginOf(const std::string& auth) {
    if (auth.empty()) return "";
    const auto colon = auth.find(':');
    if (colon == std::string::npos) return fmt::format(":{}@", Encoded(auth));
    return fmt::format("{}:{}@", Encoded(auth.substr(0, colon)), Encoded(auth.substr(colon + 1)));
  }

  void ReadMetrics() {
    const std::string address = Take("PROMETHEUS_ADDR", ":9090");
    const std::string path = Take("PROMETHEUS_PATH");
    if (TakeBool("USE_PROMETHEUS") == true) {
      Add("--metrics", (address.starts_with(':') ? "0.0.0.0" : "") + address);
      if (!path.empty()) Add("--metrics-path", path);
      Add("--envoy-metric-names", "true");
    }
    const auto statsd = TakeBool("USE_STATSD");
    if (statsd == true) {
      read_.warnings.emplace_back(
          "USE_STATSD: sluiced has no statsd; metrics are at /metrics on the HTTP port, and at "
          "PROMETHEUS_ADDR if USE_PROMETHEUS is true");
    }
    if (!statsd) return;
    for (const char* const name : {"STATSD_HOST", "STATSD_PORT"}) Take(name);
  }

  void ReadHeaders() {
    if (TakeBool("LIMIT_RESPONSE_HEADERS_ENABLED") != true) return;
    Add("--envoy-response-headers",
        fmt::format("{},{},{}", Take("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
                    Take("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
                    Take("LIMIT_RESET_HEADER", "RateLimit-Reset")));
  }

  void ReadLog() {
    std::string level = Lowercase(Take("LOG_LEVEL"));
    if (level == "warning") level = "warn";
    if (level == "fatal" || level == "panic") level = "error";
    if (!level.empty()) Add("--log-level", level);
    ReadText("--log-format", "LOG_FORMAT");
  }

  void WarnOfTheRest() {
    for (const auto& [name, value] : variables_) {
      const bool meaningless =
          std::ranges::any_of(kMeaningless, [&name = name](std::string_view it) {
            return it.ends_with('_') ? name.starts_with(it) : name == it;
          });
      // If there is a service named "redis", Kubernetes sets these variables in every container.
      const bool by_kubernetes =
          name.starts_with("REDIS_SERVICE_") || name.starts_with("REDIS_PORT");
      if (meaningless && !by_kubernetes)
        read_.warnings.push_back(name + " has no effect in sluiced");
    }
  }

  std::map<std::string, std::string> variables_;
  EnvoyEnvironment read_;
  std::vector<std::string> mistakes_;
};

}  // namespace

Result<EnvoyEnvironment> ReadEnvoyEnvironment(std::span<const std::string> environment) {
  return Reader(environment).Read();
}

}  // namespace sluice
