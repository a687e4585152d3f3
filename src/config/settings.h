// What an operator may set: in a YAML file, overridden by SLUICE_* variables, overridden by flags.
// settings_table.cc lists every setting, once.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "match/rule.h"

namespace sluice {

struct Settings {
  std::string rules_directory;  // empty: no rules
  std::string redis_url;        // empty: the embedded store
  Duration redis_timeout = std::chrono::milliseconds(10);
  std::string redis_tls_ca;           // file; empty: the system's authorities
  std::string redis_tls_certificate;  // file; empty: none of our own
  std::string redis_tls_key;          // file; not empty with redis_tls_certificate
  std::string redis_tls_server_name;  // empty: the host connected to
  std::size_t threads = 0;            // io threads; 0: as many as serve best
  Address grpc{.host = "0.0.0.0", .port = 8081, .unix_path = {}};
  std::string grpc_engine = "http2";  // http2 or grpc
  Duration max_connection_age{};      // of gRPC callers; zero: no end
  Address http{.host = "0.0.0.0", .port = 8080, .unix_path = {}};
  std::string tls_certificate;  // file; empty: gRPC without TLS
  std::string tls_key;          // file; not empty with tls_certificate
  std::string tls_client_ca;    // file; empty: callers need no certificate
  Duration drain = std::chrono::seconds(5);
  std::string log_level = "info";   // trace, debug, info, warn, error or off
  std::string log_format = "text";  // text or json
  std::string admin = "auto";       // auto, off, or an address
  std::string admin_token;          // empty: none; a secret
  Unmatched unmatched = Unmatched::kAllow;
  std::optional<double> fleet_share;  // 0 < share <= 1; absent: by how many servers there are
  bool ready_needs_redis = false;
  std::size_t max_keys = 1'000'000;

  bool operator==(const Settings&) const = default;
};

// Reads the settings from the flags `arguments` (without the program's name), from those of
// `environment` ("NAME=value") that begin with SLUICE_, and from the file that --config names.
// The error holds every mistake, one a line: where, what was found, what is allowed.
Result<Settings> ReadSettings(std::span<const std::string> arguments,
                              std::span<const std::string> environment);

// Every setting with flag, variable, key in the file, default and meaning, for --help.
std::string DescribeSettings();

}  // namespace sluice
