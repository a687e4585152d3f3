// Certificates and keys for TLS connections, loaded from files and reloaded when the files change.
//
// Thread-safe. Open connections keep the setup that they started with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "net/tls_setup.h"

namespace sluice::net {

// Paths of PEM files, or their contents. If a member is empty, the file is not used.
struct TlsFiles {
  std::string certificate_chain;  // our own certificate first
  std::string private_key;        // without a passphrase
  std::string ca;                 // the authorities that may sign peers' certificates

  bool operator==(const TlsFiles&) const = default;
};

class TlsContext {
 public:
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again, for new connections. If the files are invalid, the previous setup stays
  // in use and the cause is logged once. Returns whether a new setup is in use. Blocks on disk I/O;
  // call it from a worker every few seconds.
  bool Reload() SLUICE_EXCLUDES(reload_mutex_, mutex_);

  std::shared_ptr<const TlsSetup> setup() const SLUICE_EXCLUDES(mutex_);

  // When our own certificate expires, in seconds of Unix time; infinity if we have no certificate.
  double Expiry() const SLUICE_EXCLUDES(mutex_);

 protected:
  using Build = std::function<Result<TlsSetup>()>;

  TlsContext(TlsFiles paths, Build build) : paths_(std::move(paths)), build_(std::move(build)) {}
  ~TlsContext() = default;

  Result<void> ReadFirst();

 private:
  void Refuse(const std::string& cause) SLUICE_REQUIRES(reload_mutex_);
  void Use(TlsSetup setup) SLUICE_EXCLUDES(mutex_);

  const TlsFiles paths_;
  const Build build_;

  Mutex reload_mutex_;
  TlsFiles tried_ SLUICE_GUARDED_BY(reload_mutex_);       // the last contents read, valid or not
  std::string refused_ SLUICE_GUARDED_BY(reload_mutex_);  // the last cause logged

  mutable Mutex mutex_;
  std::shared_ptr<const TlsSetup> setup_ SLUICE_GUARDED_BY(mutex_);
};

// Requires TLS 1.2 or later. Issues no session tickets. So if `ca` is set, each handshake verifies
// the client's certificate.
class TlsServerContext final : public TlsContext {
 public:
  struct Options {
    // If `ca` is set, only clients with a certificate signed by it can connect.
    TlsFiles paths;
    Duration handshake_time = std::chrono::seconds(10);  // the handshake's timeout
  };

  // If a file is invalid, the error names it.
  static Result<std::unique_ptr<TlsServerContext>> Load(Options options);

 private:
  using TlsContext::TlsContext;
};

class TlsClientContext final : public TlsContext {
 public:
  // Without `ca`, the system's authorities are trusted. A certificate is optional. `alpn` has the
  // protocols to offer, in the format of Alpn::protocol, and must outlive this object.
  static Result<std::unique_ptr<TlsClientContext>> Load(TlsFiles paths, std::string_view alpn = {});

 private:
  using TlsContext::TlsContext;
};

}  // namespace sluice::net
