// The certificates and secrets of a server, read from files and replaced when the files change.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "api/caller_access.h"
#include "base/result.h"
#include "base/secret.h"
#include "config/settings.h"
#include "metrics/metrics_registry.h"
#include "net/tls_context.h"

namespace sluice {

class Credentials {
 public:
  // The error names the setting. `metrics` must outlive the credentials, and must not be rendered
  // after the credentials are destroyed.
  static Result<std::unique_ptr<Credentials>> Load(const Settings& settings,
                                                   MetricsRegistry& metrics);

  // Reads all files again. If a file cannot be used, its previous content stays in use, and the
  // cause is logged once. Blocks on disk I/O; call it from a worker every few seconds.
  void Reload();

  // For gRPC and HTTP. Null if TLS is off.
  net::TlsServerContext* server_tls() const { return server_tls_.get(); }
  net::TlsClientContext* redis_tls() const { return redis_tls_.get(); }

  // Null if every caller is admitted.
  const CallerAccess* callers() const { return callers_.get(); }

  // Empty if the settings have no admin token.
  const Secret& admin_token() const { return admin_token_.secret; }

  // Null if redis.password_file is not set. The password, if Redis needs one, is then in redis.url.
  const Secret* redis_password() const {
    return redis_password_.path.empty() ? nullptr : &redis_password_.secret;
  }

 private:
  struct SecretFile {
    const char* const setting;
    std::string path{};     // if empty, the secret does not change
    std::string refused{};  // the cause last logged
    Secret secret{};

    Result<void> Load();
    void Reload();
  };

  Credentials() = default;
  Result<void> LoadTls(const Settings& settings);
  // The earliest expiry of our certificates, in seconds of Unix time; infinity if none is set.
  double Expiry() const;

  std::unique_ptr<net::TlsServerContext> server_tls_;
  std::unique_ptr<net::TlsClientContext> redis_tls_;
  std::unique_ptr<CallerAccess> callers_;
  SecretFile admin_token_{.setting = "admin.token_file"};
  SecretFile redis_password_{.setting = "redis.password_file"};
};

}  // namespace sluice
