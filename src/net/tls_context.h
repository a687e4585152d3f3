// Certificates and keys of TLS connections, read from files and read again when these change.
//
// Thread-safe. Connections that are open keep what they began with.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"

struct ssl_ctx_st;

namespace sluice::net {

// What one set of files has become: OpenSSL's context, and what its handshakes are to agree on.
struct TlsSetup {
  std::shared_ptr<ssl_ctx_st> context;
  std::string alpn;  // protocols as they are sent: each after a byte with its length
  bool alpn_required = false;
  Duration handshake_time = std::chrono::seconds(10);
};

// PEM: paths of files, or what is in them. Empty: there is none.
struct TlsFiles {
  std::string certificate_chain;  // our own certificate first
  std::string private_key;        // without a passphrase
  std::string ca;                 // who may sign the peers' certificates

  bool operator==(const TlsFiles&) const = default;
};

class TlsContext {
 public:
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Reads the files again, for connections from now on. If they cannot be used, what was there
  // before stays in use, and the cause is logged once. Returns whether they had changed and are in
  // use. Blocks on the disk: for a worker, every few seconds.
  bool Reload() SLUICE_EXCLUDES(reload_mutex_, mutex_);

  // The texts of the files in use.
  TlsFiles texts() const SLUICE_EXCLUDES(mutex_);

  std::shared_ptr<const TlsSetup> setup() const SLUICE_EXCLUDES(mutex_);

 protected:
  using Build = std::function<Result<TlsSetup>(const TlsFiles& texts)>;

  TlsContext(TlsFiles paths, Build build) : paths_(std::move(paths)), build_(std::move(build)) {}
  ~TlsContext() = default;

  Result<void> ReadFirst();

 private:
  void Refuse(const std::string& cause) SLUICE_REQUIRES(reload_mutex_);
  void Use(TlsFiles texts, TlsSetup setup) SLUICE_EXCLUDES(mutex_);

  const TlsFiles paths_;
  const Build build_;

  Mutex reload_mutex_;
  TlsFiles tried_ SLUICE_GUARDED_BY(reload_mutex_);       // the texts last seen, good or bad
  std::string refused_ SLUICE_GUARDED_BY(reload_mutex_);  // the cause last logged

  mutable Mutex mutex_;
  TlsFiles texts_ SLUICE_GUARDED_BY(mutex_);
  std::shared_ptr<const TlsSetup> setup_ SLUICE_GUARDED_BY(mutex_);
};

// TLS 1.2 at least. Without session tickets: each connection's certificate is verified anew.
class TlsServerContext final : public TlsContext {
 public:
  struct Options {
    // With a `ca`, only clients with a certificate that it has signed are let in.
    TlsFiles paths;
    // The protocols spoken, best first: "h2", "http/1.1". A client that offers only others is
    // refused; one that offers none, if `alpn_required`.
    std::vector<std::string> alpn;
    bool alpn_required = false;
    Duration handshake_time = std::chrono::seconds(10);  // beyond, the connection is lost
  };

  // The error names the file that cannot be used.
  static Result<std::unique_ptr<TlsServerContext>> Load(Options options);

 private:
  using TlsContext::TlsContext;
};

class TlsClientContext final : public TlsContext {
 public:
  // Without a `ca`, the system's authorities are trusted. A certificate is optional. `alpn`: the
  // protocols to offer, best first.
  static Result<std::unique_ptr<TlsClientContext>> Load(TlsFiles paths,
                                                        const std::vector<std::string>& alpn = {});

 private:
  using TlsContext::TlsContext;
};

}  // namespace sluice::net
