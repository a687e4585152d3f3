#include "app/envoy_environment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace sluice {
namespace {

// Variables of Envoy's service that have no effect in Sluice. A name that ends in _ is a prefix.
constexpr std::array<std::string_view, 22> kMeaningless{
    "BACKEND_TYPE",
    "CACHE_KEY_PREFIX",
    "CONFIG_TYPE",
    "CONFIG_GRPC_",
    "DEBUG_",
    "DISABLE_STATS",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "EXTRA_TAGS",
    "FORCE_START_WITHOUT_INITIAL_CONFIG",
    "GRPC_AUTH",
    "GRPC_CLIENT_TLS_",
    "GRPC_MAX_CONNECTION_",
    "GRPC_SERVER_",
    "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
    "MEMCACHE_",
    "PROMETHEUS_",
    "REDIS_",
    "RUNTIME_",
    "STATSD_",
    "TRACING_",
    "USE_PROMETHEUS",
    "USE_STATSD",
};

using Words = std::array<std::string_view, 6>;

constexpr Words kTrue{"true", "True", "TRUE", "t", "T", "1"};
constexpr Words kFalse{"false", "False", "FALSE", "f", "F", "0"};

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
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
    ReadAddress("--grpc", "GRPC_HOST", "GRPC_PORT", "8081");
    ReadAddress("--http", "HOST", "PORT", "8080");
    ReadRules();
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
    ReadLog();
    Take("LOCAL_CACHE_SIZE_IN_BYTES");  // the deny cache is always on
    WarnOfTheRest();
    if (!mistakes_.empty()) return InvalidArgument(fmt::format("{}", fmt::join(mistakes_, "\n")));
    return std::move(read_);
  }

 private:
  // The value of a variable that has an effect; `otherwise` if it is absent or empty.
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

  void ReadRules() {
    const std::string root = Take("RUNTIME_ROOT", "/srv/runtime_data/current");
    const std::string below = Take("RUNTIME_SUBDIRECTORY");
    const std::string rules = Take("RUNTIME_APPDIRECTORY", "config");
    Add("--envoy-rules", fmt::format("{}{}{}/{}", root, below.empty() ? "" : "/", below, rules));
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
    if (Take("REDIS_SOCKET_TYPE") == "unix" || hosts.starts_with('/')) {
      return Add("--redis", "unix://" + hosts);
    }
    if (hosts.empty()) return;
    std::string scheme = tls ? "rediss" : "redis";
    if (cluster) scheme += "+cluster";
    if (sentinel) {
      // The master's name comes first.
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

  void ReadHeaders() {
    const bool enabled = TakeBool("LIMIT_RESPONSE_HEADERS_ENABLED") == true;
    const std::string names = fmt::format("{},{},{}", Take("LIMIT_LIMIT_HEADER", "RateLimit-Limit"),
                                          Take("LIMIT_REMAINING_HEADER", "RateLimit-Remaining"),
                                          Take("LIMIT_RESET_HEADER", "RateLimit-Reset"));
    if (enabled) Add("--envoy-response-headers", names);
  }

  void ReadLog() {
    std::string level = Take("LOG_LEVEL");
    std::transform(level.begin(), level.end(), level.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (level == "warning") level = "warn";
    if (level == "fatal" || level == "panic") level = "error";
    if (!level.empty()) Add("--log-level", level);
    ReadText("--log-format", "LOG_FORMAT");
  }

  void WarnOfTheRest() {
    for (const auto& [name, value] : variables_) {
      const bool meaningless = std::any_of(
          kMeaningless.begin(), kMeaningless.end(), [&name = name](std::string_view it) {
            return it.ends_with('_') ? name.starts_with(it) : name == it;
          });
      // Kubernetes sets it to such a URL for a service named "redis".
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
