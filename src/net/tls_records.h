// Both directions of a TLS 1.3 connection after its handshake (RFC 8446, sections 4.6, 5 and 6):
// application data, alerts, key updates. Ignores session tickets.
//
// OpenSSL does the handshake and the cryptography. Its own record layer takes more than twice as
// long for short records and keeps many times the memory.
//
// Not thread-safe. Buffers only incomplete messages between the ends, such as session tickets.
#pragma once

#include <openssl/ssl.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "net/tls_record_cipher.h"

namespace sluice::net {

class TlsRecords {
 public:
  struct Secrets {
    std::string read;
    std::string write;
  };

  // As many records as AES-GCM may encrypt with one key (RFC 8446, section 5.5).
  static constexpr std::uint64_t kRecordsPerKey = 1U << 24U;

  // `suite`, `secrets`: as in TlsRecordCipher.
  TlsRecords(const SSL_CIPHER& suite, Secrets secrets,
             std::uint64_t records_per_key = kRecordsPerKey);

  enum class Progress : std::uint8_t { kDone, kNeedsInput, kEnded, kFailed };

  // Removes complete records from the front of `input`, up to the first with application data, and
  // appends replies to `output`. kDone: `plain` has bytes, valid until the next Read on this
  // thread. kEnded: the peer has sent close_notify. kFailed: error() has the cause, and `output`
  // ends with an alert unless the peer has sent one.
  Progress Read(std::string_view& input, std::string& output, std::string_view& plain);

  // Returns false on failure.
  bool Write(std::string_view plain, std::string& output);

  // Appends close_notify to `output`.
  void Finish(std::string& output) { SendAlert(SSL_AD_CLOSE_NOTIFY, output); }

  const std::string& error() const { return error_; }

 private:
  using Record = TlsRecordCipher::Record;

  Progress Process(const Record& record, std::string& output, std::string_view& plain);
  Progress ProcessAlert(std::string_view content, std::string& output);
  Progress ProcessMessages(std::string_view content, std::string& output);
  Progress ProcessKeyUpdate(std::string_view body, std::string& output);
  bool UpdateKey(std::string& output);
  Progress Fail(std::uint8_t alert, std::string& output);
  void SendAlert(std::uint8_t alert, std::string& output);

  const std::uint64_t records_per_key_;
  TlsRecordCipher opener_;
  TlsRecordCipher sealer_;
  int records_without_data_ = 0;  // since the last with application data
  std::string messages_;          // an incomplete handshake message
  std::string error_;
};

}  // namespace sluice::net
