// A TLS client on a blocking socket. It uses OpenSSL directly, as a reference peer.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/net/test_protocol.h"
#include "tests/support/certificates.h"

namespace sluice::net {

struct TlsClientOptions {
  std::string ca;                   // authorities for the server's certificate; empty: no check
  test::Certificate certificate{};  // the client's certificate; empty: none
  int version = 0;                  // TLS1_2_VERSION; 0: negotiated
  std::string alpn;                 // in wire format: "\x02h2"; empty: none
};

class TlsClient {
 public:
  TlsClient(BlockingSocket socket, const TlsClientOptions& options);

  // Returns why the handshake failed, or an empty string.
  std::string Handshake();

  bool Send(std::string_view bytes);
  // Reads `size` bytes, or fewer if the server closes or fails.
  std::string Read(std::size_t size);
  // Returns whether the next input is close_notify.
  bool ReadsEnd();
  void Finish() { SSL_shutdown(ssl_.get()); }

  std::string alpn() const;
  std::string version() const { return SSL_get_version(ssl_.get()); }
  std::string server_serial() const;
  SSL* ssl() { return ssl_.get(); }
  BlockingSocket& socket() { return socket_; }
  // The error of the last failure.
  const std::string& error() const { return error_; }

 private:
  template <auto kFree>
  struct FreeBy {
    template <typename T>
    void operator()(T* object) const {
      kFree(object);
    }
  };

  void NoteError(int result);

  BlockingSocket socket_;
  std::unique_ptr<SSL_CTX, FreeBy<SSL_CTX_free>> context_;
  std::unique_ptr<SSL, FreeBy<SSL_free>> ssl_;
  std::string error_;
};

}  // namespace sluice::net
