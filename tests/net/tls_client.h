// A TLS client on a blocking socket, by OpenSSL itself: what the server's end is held against.
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
  std::string ca;                   // who may sign the server's certificate
  test::Certificate certificate{};  // ours; empty: none
  int version = 0;                  // TLS1_2_VERSION; 0: the best of both
  std::string alpn;                 // as it is sent: "\x02h2"; empty: none
};

class TlsClient {
 public:
  TlsClient(BlockingSocket socket, const TlsClientOptions& options);

  // Empty, or why it failed.
  std::string Handshake();

  bool Send(std::string_view bytes);
  // At most `size` bytes; less if the server ends or fails.
  std::string Read(std::size_t size);
  // Whether reading ends because the server has said so (close_notify).
  bool ReadsEnd();
  void Finish() { SSL_shutdown(ssl_.get()); }

  std::string alpn() const;
  std::string version() const { return SSL_get_version(ssl_.get()); }
  std::string server_serial() const;
  SSL* ssl() { return ssl_.get(); }
  BlockingSocket& socket() { return socket_; }
  // Of the last failure.
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
