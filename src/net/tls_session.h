// One end of a TLS connection without I/O: converts between encrypted bytes and plaintext. OpenSSL
// reads directly from the caller's input and appends directly to the caller's output.
//
// Not thread-safe. Buffers only incomplete TLS records.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/tls_setup.h"

namespace sluice::net {

// A short text for OpenSSL's first queued error on this thread. Clears the queue.
std::string TlsErrorText();

class TlsSession {
 public:
  // The server's end.
  TlsSession(std::shared_ptr<const TlsSetup> setup, Alpn alpn);
  // The client's end. `server_name`: a host name or a numeric address.
  TlsSession(std::shared_ptr<const TlsSetup> setup, const std::string& server_name);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Whether this end starts the handshake, as clients do.
  bool speaks_first() const { return SSL_is_server(ssl_.get()) == 0; }

  // The maximum number of key updates (TLS 1.3) that a peer may send without data between them.
  // Each update costs a few key derivations, and OpenSSL processes any number of updates in one
  // call.
  static constexpr int kMaxKeyUpdates = 32;

  enum class Progress : std::uint8_t { kDone, kNeedsInput, kEnded, kFailed };

  // Handshake and Read remove the bytes they consume from the front of `input`. They append to
  // `output` what must be sent. After kFailed, error() has the cause and `output` may end with a
  // TLS alert.
  Progress Handshake(std::string_view& input, std::string& output);

  // kDone: `plain` has bytes, valid until the next Read on this thread. kEnded: the peer has sent
  // close_notify. REQUIRES, for Read, Write and Finish: the handshake is done.
  Progress Read(std::string_view& input, std::string& output, std::string_view& plain);

  // Whether Read can return more bytes without further input.
  bool has_plain() const { return SSL_pending(ssl_.get()) > 0; }

  // Returns false on failure.
  bool Write(std::string_view plain, std::string& output);

  // Appends close_notify to `output`.
  void Finish(std::string& output);

  Duration handshake_time() const { return setup_->handshake_time; }

  const std::string& error() const { return error_; }

  // The names in the peer's verified certificate (net::Peer::identities). Set when the handshake is
  // done.
  const std::vector<std::string>& peer_identities() const { return peer_identities_; }

  // Installs in `context` the callbacks that a server's sessions need.
  static void SetUpServer(SSL_CTX& context);

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  // The buffers that OpenSSL reads from and writes to while a member function runs.
  struct Buffers {
    std::string_view* input = nullptr;
    std::string* output = nullptr;
  };

  struct Callbacks;  // of OpenSSL

  void Open();
  Progress After(int result);

  const std::shared_ptr<const TlsSetup> setup_;
  const Alpn alpn_;  // of a server
  const std::unique_ptr<SSL, FreeSsl> ssl_;
  Buffers buffers_;
  int key_updates_ = 0;  // of the peer, since its last data
  std::string error_;
  std::vector<std::string> peer_identities_;
};

}  // namespace sluice::net
