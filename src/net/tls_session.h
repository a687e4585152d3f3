// One end of a TLS connection without I/O: encrypted bytes in and out on one side, plain ones on
// the other. OpenSSL, with input read from where it lies and output appended to where it goes.
//
// One thread at a time. Keeps no bytes of its own but those of a record that has not come whole.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/tls_context.h"

namespace sluice::net {

class TlsSession {
 public:
  // As a server.
  explicit TlsSession(std::shared_ptr<const TlsSetup> setup);
  // As a client of `server_name`: a host name or a numeric address.
  TlsSession(std::shared_ptr<const TlsSetup> setup, const std::string& server_name);
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Whether the handshake begins without input: a client's.
  bool speaks_first() const { return SSL_is_server(ssl_.get()) == 0; }

  enum class Progress : std::uint8_t { kDone, kNeedsInput, kEnded, kFailed };

  // Each takes what it needs from the front of `input` and appends what is to be sent to `output`.
  // After kFailed, error() says why, and `output` may have got an alert for the peer.
  Progress Handshake(std::string_view& input, std::string& output);

  // kDone: `plain` has bytes, valid until the next Read on this thread. kEnded: the peer sends no
  // more. REQUIRES of this and what follows: the handshake is done.
  Progress Read(std::string_view& input, std::string& output, std::string_view& plain);

  // False: failed.
  bool Write(std::string_view plain, std::string& output);

  // Tells the peer that no more is sent.
  void Finish(std::string& output);

  Duration handshake_time() const { return setup_->handshake_time; }

  const std::string& error() const { return error_; }

  // The subject alternative names (DNS, URI, email, IP) of the peer's certificate, if it was
  // verified.
  std::vector<std::string> PeerIdentities() const;

  // What handshakes of servers with this context do besides OpenSSL's own: choose a protocol.
  static void SetUpServer(SSL_CTX& context);

 private:
  struct FreeSsl {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
  };

  // Where OpenSSL reads and writes, while it is called.
  struct Ends {
    std::string_view* input = nullptr;
    std::string* output = nullptr;
  };

  static const BIO_METHOD* EndsMethod();
  static int ReadInput(BIO* bio, char* data, int size);
  static int WriteOutput(BIO* bio, const char* data, int size);
  static int ChooseProtocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                            const unsigned char* offered, unsigned offered_size, void*);
  static int CheckHello(SSL* ssl, int* alert, void*);

  void Open();
  Progress After(int result);

  const std::shared_ptr<const TlsSetup> setup_;
  const std::unique_ptr<SSL, FreeSsl> ssl_;
  Ends ends_;
  std::string error_;
};

}  // namespace sluice::net
