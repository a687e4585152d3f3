// The settings of the server, from a YAML file, SLUICE_* variables and flags. Variables override
// the file, and flags override both. A setting is a member of Settings and a row of SettingsTable,
// both in this file.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "config/setting_values.h"
#include "core/caller.h"
#include "match/rule.h"

namespace sluice {

// The control plane that sends Envoy's rules by xDS, and the connection to it.
struct XdsSettings {
  std::string server;  // empty: no rules by xDS
  std::string node_id;
  std::vector<std::pair<std::string, std::string>> node_metadata;
  std::vector<std::pair<std::string, std::string>> headers;
  // Files and names for TLS. All empty: no TLS.
  std::string ca;  // "system": the system's authorities
  std::string certificate;
  std::string key;  // set if and only if `certificate` is set
  std::string server_name;
  Duration first_pause{};
  Duration longest_pause{};
  std::size_t max_message = 0;  // bytes
  std::string ready;

  bool operator==(const XdsSettings&) const = default;
};

// The settings of Envoy's rate limit service, which is on if a directory or a control plane is set.
struct EnvoySettings {
  std::string rules_directory = {};
  XdsSettings xds = {};
  bool merge_domains = false;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool count_denied = true;
  double near_limit_ratio = 0.8;
  bool metric_names = false;
  bool dynamic_metadata = false;
  // Names of headers of answers. If answers have no such headers, all three names are empty.
  std::string limit_header = {};
  std::string remaining_header = {};
  std::string reset_header = {};

  bool is_on() const { return !rules_directory.empty() || !xds.server.empty(); }

  bool operator==(const EnvoySettings&) const = default;
};

// SettingsTable describes each setting and has its default. A text that is empty is not set.
struct Settings {
  std::string rules_directory;
  std::string redis_url;
  std::string redis_password_file;
  Duration redis_timeout{};
  std::string redis_tls_ca;
  std::string redis_tls_certificate;
  std::string redis_tls_key;  // set if and only if redis_tls_certificate is set
  std::string redis_tls_server_name;
  std::size_t threads = 0;  // 0: chosen automatically
  Address grpc;
  std::optional<mode_t> grpc_socket_mode;
  Address http;
  std::size_t http_max_connections = 0;  // 0: a quarter of max_connections
  std::string metrics;                   // "off" or an address
  std::string metrics_path;
  std::string tls_certificate;
  std::string tls_key;  // set if and only if tls_certificate is set
  std::string tls_client_ca;
  bool tls_http = false;
  std::size_t max_connections = 0;
  Duration max_connection_age{};  // zero: no age limit
  Duration drain{};
  std::string log_level;
  std::string log_format;
  std::string admin;
  std::string admin_token;       // a secret
  std::string admin_token_file;  // instead of admin_token
  std::vector<std::string> admin_identities;
  std::vector<Caller> callers;  // only in the file; empty: every caller is admitted
  Unmatched unmatched = Unmatched::kAllow;
  std::optional<double> fleet_share;  // absent: calculated from the number of servers
  bool ready_needs_redis = false;
  bool top_keys = false;
  bool show_keys = false;
  std::size_t max_keys = 0;
  std::size_t max_memory = 0;  // bytes
  EnvoySettings envoy;
  std::map<std::string, std::string> texts;  // of all settings, by key

  bool uses_redis() const { return !redis_url.empty(); }
  bool uses_redis_tls() const { return redis_url.starts_with("rediss"); }

  bool operator==(const Settings&) const = default;
};

// A row of the table. Flag and variable are named after the key: redis.timeout is --redis-timeout
// and SLUICE_REDIS_TIMEOUT. `.listen`, `.url` and `.server` are left out of these names:
// grpc.listen is --grpc.
struct Setting {
  Setting(std::string_view its_key, std::string_view its_value, std::string_view its_initial,
          std::string_view its_help, Setter its_set);

  std::string_view key;
  std::string_view value;    // the name of the value in --help
  std::string_view initial;  // the default; "none": not set
  std::string_view help;
  Setter set;
  std::string flag;
  std::string variable;
  // Whether the value is a secret. A secret must not appear in the file or in the process list, so
  // it can only be set by its variable.
  bool is_secret;
};

// The keys of the settings whose texts differ, and "callers" if the callers differ.
std::vector<std::string> ChangedSettings(const Settings& before, const Settings& after);

// The settings in the order of --help, each bound to its place in `to`.
inline std::vector<Setting> SettingsTable(Settings& to) {
  using namespace std::chrono;
  return {
      {"rules", "DIR", "none", "directory of rule files (*.yaml, *.yml)",
       SetText(to.rules_directory)},
      {"redis.url", "URL", "none",
       "store of all servers: redis://[user:password@]host[:port][/db], unix://path, "
       "redis+sentinel://host,host/master or redis+cluster://host,host; for TLS, rediss in place "
       "of redis; none: the embedded store, for a single server",
       SetText(to.redis_url)},
      {"redis.password_file", "FILE", "none",
       "file with Redis' password, which replaces a password in redis.url; read again when it "
       "changes",
       SetSecretFile(to.redis_password_file)},
      {"redis.timeout", "TIME", "10ms",
       "how long a check waits for Redis before on_store_failure decides",
       SetLength(to.redis_timeout, milliseconds(1), minutes(1))},
      {"redis.tls.ca", "FILE", "none",
       "authorities (PEM) that sign Redis' certificates; none: the system's authorities",
       SetFile(to.redis_tls_ca)},
      {"redis.tls.certificate", "FILE", "none",
       "certificate chain (PEM) that this server presents to Redis",
       SetFile(to.redis_tls_certificate)},
      {"redis.tls.key", "FILE", "none", "private key (PEM) of redis.tls.certificate",
       SetFile(to.redis_tls_key)},
      {"redis.tls.server_name", "NAME", "none",
       "the name that Redis' certificates must have; none: the host that this server connects to",
       SetText(to.redis_tls_server_name)},
      {"threads", "COUNT", "auto",
       "io threads, each with its own connection to Redis; auto: 2, or 1 on a single core; "
       "more threads help with TLS and with answers that do not need Redis",
       SetCount(to.threads, 1, 256, "auto")},
      {"grpc.listen", "ADDR", "0.0.0.0:8081",
       "where gRPC listens: host:port, [IPv6]:port or unix:PATH; port 0 chooses a free port",
       SetListen(to.grpc)},
      {"grpc.socket_mode", "MODE", "none",
       "permissions of gRPC's unix socket, in octal; callers need write permission (0660: the "
       "server's group may call, too); none: the umask decides",
       SetPermissions(to.grpc_socket_mode)},
      {"http.listen", "ADDR", "0.0.0.0:8080",
       "where HTTP listens (/v1/check, /v1/auth, /healthz, /readyz, /metrics, /rules): see --grpc",
       SetListen(to.http)},
      {"http.max_connections", "COUNT", "auto",
       "how many of max_connections are for HTTP; proxies need one for each request in progress; "
       "auto: a quarter",
       SetCount(to.http_max_connections, 1, 1'000'000, "auto")},
      {"metrics.listen", "ADDR", "off",
       "a second address, which serves only the metrics page; or off",
       SetListenOr(to.metrics, {"off"})},
      {"metrics.path", "PATH", "/metrics", "path of the metrics page at metrics.listen",
       SetText(to.metrics_path)},
      {"tls.certificate", "FILE", "none",
       "certificate chain (PEM) for gRPC, HTTP and admin.listen on TCP; read again when it "
       "changes; none: no TLS",
       SetFile(to.tls_certificate)},
      {"tls.key", "FILE", "none", "private key (PEM) of tls.certificate", SetFile(to.tls_key)},
      {"tls.client_ca", "FILE", "none",
       "authorities (PEM) that sign callers' certificates; with TLS, every caller then needs a "
       "certificate",
       SetFile(to.tls_client_ca)},
      {"tls.http", "BOOL", "true",
       "true or false: whether HTTP has TLS, too; false if probes or scrapers cannot use TLS",
       SetFlag(to.tls_http)},
      {"max_connections", "COUNT", "100000",
       "maximum number of connections of gRPC and HTTP together; fewer if the limit of open files "
       "is lower",
       SetCount(to.max_connections, 2, 1'000'000)},
      {"max_connection_age", "TIME", "none",
       "callers reconnect after about this time, which balances them over a fleet behind one "
       "address; none: connections have no age limit",
       SetLength(to.max_connection_age, seconds(1), days(7), "none")},
      {"drain", "TIME", "5s",
       "after SIGTERM: the maximum time for callers to disconnect, for calls to finish, and for "
       "recording in Redis the units and leases that this server gave out while Redis was "
       "unavailable",
       SetLength(to.drain, milliseconds(1), minutes(10))},
      {"log.level", "LEVEL", "info",
       "trace, debug, info, warn, error or off; SIGHUP reloads the level from the file",
       SetWord(to.log_level, {"trace", "debug", "info", "warn", "error", "off"})},
      {"log.format", "WORD", "text", "text, or json: one object per line",
       SetWord(to.log_format, {"text", "json"})},
      {"admin.listen", "ADDR", "auto",
       "address for operator calls (explain, list, reset, reload, watch): see --grpc; TCP needs an "
       "admin token or admin.identities; auto: a unix socket that only the server's user may open; "
       "off: no such address",
       SetListenOr(to.admin, {"auto", "off"})},
      {"admin.token_file", "FILE", "none",
       "file with the admin token, which grants admin calls and /rules on all addresses; "
       "read again when it changes",
       SetInsteadOf(to.admin_token, SetSecretFile(to.admin_token_file))},
      {"admin.token", "TOKEN", "none", "the admin token itself",
       SetInsteadOf(to.admin_token_file, SetSecret(to.admin_token))},
      {"admin.identities", "NAMES", "none",
       "names in client certificates (tls.client_ca), such as dns:ops.example, that grant the "
       "same access as the admin token; separated by commas",
       SetIdentities(to.admin_identities)},
      {"unmatched", "WORD", "allow",
       "allow or deny: the decision for requests that no rule matches, unless the rule file of "
       "their domain sets unmatched",
       SetEither<Unmatched>(to.unmatched, {"allow", Unmatched::kAllow},
                            {"deny", Unmatched::kDeny})},
      {"fleet_share", "SHARE", "auto",
       "this server's share of every limit while Redis is unavailable: a number, or auto: servers "
       "count each other in Redis, and a server is not ready until it has been counted; above "
       "1,000 servers, no server has a share, so rules with on_store_failure: local deny "
       "everything",
       SetShareOrAuto(to.fleet_share)},
      {"ready_needs_redis", "BOOL", "false",
       "true or false: whether /readyz fails whenever Redis is unavailable",
       SetFlag(to.ready_needs_redis)},
      {"top_keys", "BOOL", "false",
       "true or false: whether the most denied and most used keys are always counted; false: they "
       "are counted while somebody watches",
       SetFlag(to.top_keys)},
      {"show_keys", "BOOL", "false",
       "true or false: whether those who watch see keys, which may be personal or secret; false: "
       "they see digests of the keys",
       SetFlag(to.show_keys)},
      {"max_keys", "COUNT", "1000000", "maximum number of counters in the embedded store",
       SetCount(to.max_keys, 1, 1'000'000'000)},
      {"max_memory", "SIZE", "256MiB",
       "maximum memory of the embedded store's counters, in KiB, MiB or GiB; a sliding log takes "
       "24 bytes for each admitted check, and each holder of a slot takes 160 bytes",
       SetBytes(to.max_memory)},
      {"envoy.rules", "DIR", "none",
       "directory of rule files of Envoy's rate limit service, which is served in addition to "
       "Sluice's own; none: the service is off, unless envoy.xds.server is set",
       SetText(to.envoy.rules_directory)},
      {"envoy.xds.server", "ADDR", "none",
       "host:port of a control plane (Envoy Gateway) that sends Envoy's rules by xDS, in addition "
       "to those of envoy.rules; none: rule files only",
       SetHostPort(to.envoy.xds.server)},
      {"envoy.xds.node_id", "TEXT", "default", "the name of this server for the control plane",
       SetText(to.envoy.xds.node_id)},
      {"envoy.xds.node_metadata", "PAIRS", "none",
       "metadata of this server for the control plane: name=value, separated by commas",
       SetPairs(to.envoy.xds.node_metadata, '=')},
      {"envoy.xds.headers", "PAIRS", "none",
       "headers of the request to the control plane: name:value, separated by commas",
       SetPairs(to.envoy.xds.headers, ':')},
      {"envoy.xds.tls.ca", "FILE", "none",
       "authorities (PEM) that sign the control plane's certificate; system: the system's "
       "authorities; none: no TLS",
       SetText(to.envoy.xds.ca)},
      {"envoy.xds.tls.certificate", "FILE", "none",
       "certificate chain (PEM) that this server presents to the control plane; the files of "
       "envoy.xds.tls are read again for each connection",
       SetText(to.envoy.xds.certificate)},
      {"envoy.xds.tls.key", "FILE", "none", "private key (PEM) of envoy.xds.tls.certificate",
       SetText(to.envoy.xds.key)},
      {"envoy.xds.tls.server_name", "NAME", "none",
       "the name that the control plane's certificate must have; none: the host that this server "
       "connects to",
       SetText(to.envoy.xds.server_name)},
      {"envoy.xds.first_pause", "TIME", "10s",
       "about how long to wait before connecting to the control plane again",
       SetLength(to.envoy.xds.first_pause, milliseconds(1), hours(1))},
      {"envoy.xds.longest_pause", "TIME", "60s",
       "maximum pause: the first pause is envoy.xds.first_pause, and it doubles while the control "
       "plane is unavailable",
       SetLength(to.envoy.xds.longest_pause, milliseconds(1), hours(1))},
      {"envoy.xds.max_message", "SIZE", "64MiB", "maximum size of a set of rules",
       SetBytes(to.envoy.xds.max_message)},
      {"envoy.xds.ready", "WORD", "first_set",
       "when /readyz and /healthcheck succeed: first_set (once a set, even an empty one, is in "
       "force), "
       "always, or rules (while the set in force has rules)",
       SetWord(to.envoy.xds.ready, {"first_set", "always", "rules"})},
      {"envoy.merge_domains", "BOOL", "false",
       "true or false: whether several files of envoy.rules may define one domain",
       SetFlag(to.envoy.merge_domains)},
      {"envoy.shadow_mode", "BOOL", "false",
       "true or false: whether all requests of Envoy are counted but allowed",
       SetFlag(to.envoy.shadow_mode)},
      {"envoy.quota_mode", "BOOL", "false",
       "true or false: whether all of Envoy's limits are in quota_mode",
       SetFlag(to.envoy.quota_mode)},
      {"envoy.count_denied", "BOOL", "true",
       "true or false: whether a request over one of Envoy's limits is counted",
       SetFlag(to.envoy.count_denied)},
      {"envoy.near_limit_ratio", "RATIO", "0.8",
       "metrics count hits beyond this part of a limit as near the limit",
       SetRatio(to.envoy.near_limit_ratio)},
      {"envoy.metric_names", "BOOL", "false",
       "true or false: whether Envoy's calls are also counted under the names of Envoy's service",
       SetFlag(to.envoy.metric_names)},
      {"envoy.dynamic_metadata", "BOOL", "false",
       "true or false: whether answers to Envoy carry dynamic metadata",
       SetFlag(to.envoy.dynamic_metadata)},
      {"envoy.response_headers", "NAMES", "none",
       "headers of answers to Envoy: RateLimit-Limit,RateLimit-Remaining,RateLimit-Reset, or "
       "three other names for them",
       SetHeaderNames(
           {&to.envoy.limit_header, &to.envoy.remaining_header, &to.envoy.reset_header})},
  };
}

// Reads the settings from the flags `arguments` (without the program name), from the variables in
// `environment` ("NAME=value") that start with SLUICE_, and from the file that --config or
// SLUICE_CONFIG names. A setting that none of them sets has its default. The error lists every
// mistake, one per line: the place, what was found and what is allowed.
Result<Settings> ReadSettings(std::span<const std::string> arguments,
                              std::span<const std::string> environment);

// Every setting with its flag, variable, file key, default and description, for --help.
std::string DescribeSettings();

}  // namespace sluice
