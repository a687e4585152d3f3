// The settings of the server: from a YAML file, overridden by SLUICE_* variables, overridden by
// flags. settings_table.cc lists every setting.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "core/caller.h"
#include "match/rule.h"

namespace sluice {

// The settings of Envoy's rate limit service.
struct EnvoySettings {
  std::string rules_directory;  // of Envoy's rule files; empty: the service is off
  bool merge_domains = false;
  bool shadow_mode = false;
  bool quota_mode = false;
  bool count_denied = true;
  double near_limit_ratio = 0.8;
  bool dynamic_metadata = false;
  std::string limit_header;  // names of headers of answers; empty, all three: none
  std::string remaining_header;
  std::string reset_header;

  bool operator==(const EnvoySettings&) const = default;
};

struct Settings {
  std::string rules_directory;      // empty: no rules
  std::string redis_url;            // empty: the embedded store
  std::string redis_password_file;  // empty: the password of redis_url
  Duration redis_timeout = std::chrono::milliseconds(10);
  std::string redis_tls_ca;           // file; empty: the system's authorities
  std::string redis_tls_certificate;  // file; empty: no client certificate
  std::string redis_tls_key;          // file; not empty with redis_tls_certificate
  std::string redis_tls_server_name;  // empty: the host connected to
  std::size_t threads = 0;            // io threads; 0: chosen automatically
  Address grpc{.host = "0.0.0.0", .port = 8081, .unix_path = {}};
  std::optional<mode_t> grpc_socket_mode;  // of a unix socket; absent: the umask applies
  std::string grpc_engine = "http2";       // http2 or grpc
  Address http{.host = "0.0.0.0", .port = 8080, .unix_path = {}};
  std::size_t http_max_connections = 0;   // of max_connections; 0: a quarter
  std::string tls_certificate;            // file; empty: gRPC and HTTP without TLS
  std::string tls_key;                    // file; not empty with tls_certificate
  std::string tls_client_ca;              // file; empty: callers need no certificate
  std::size_t max_connections = 100'000;  // of gRPC and HTTP together
  Duration max_connection_age{};          // zero: no end
  Duration drain = std::chrono::seconds(5);
  std::string log_level = "info";             // trace, debug, info, warn, error or off
  std::string log_format = "text";            // text or json
  std::string admin = "auto";                 // auto, off, or an address
  std::string admin_token;                    // empty: none; a secret
  std::string admin_token_file;               // instead of admin_token; empty: none
  std::vector<std::string> admin_identities;  // of client certificates
  std::vector<Caller> callers;                // empty: every caller is admitted
  Unmatched unmatched = Unmatched::kAllow;
  std::optional<double> fleet_share;  // 0 < share <= 1; absent: by the number of servers
  bool ready_needs_redis = false;
  std::size_t max_keys = 1'000'000;
  std::size_t max_memory = std::size_t{256} << 20;  // bytes
  EnvoySettings envoy;

  bool operator==(const Settings&) const = default;
};

// Reads the settings from the flags `arguments` (without the program name), from the variables in
// `environment` ("NAME=value") that start with SLUICE_, and from the file that --config names. The
// error lists every mistake, one per line: where, what was found, what is allowed.
Result<Settings> ReadSettings(std::span<const std::string> arguments,
                              std::span<const std::string> environment);

// Every setting with its flag, variable, file key, default and description, for --help.
std::string DescribeSettings();

}  // namespace sluice
