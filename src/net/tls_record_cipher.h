// Encrypts or decrypts the records of one direction of a TLS 1.3 connection with a traffic secret
// (RFC 8446, sections 5.2, 5.3 and 7).
//
// Not thread-safe.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::net {

class TlsRecordCipher {
 public:
  enum class Direction : std::uint8_t { kOpen, kSeal };

  static constexpr std::size_t kHeaderBytes = 5;
  static constexpr std::size_t kMaxContent = 16 * 1024;
  static constexpr std::size_t kMaxSealed = kMaxContent + 256;  // without the header

  struct Record {
    std::uint8_t type = 0;  // SSL3_RT_*; 0 if the record has none
    std::string_view content;
  };

  // `suite`: one of TLS 1.3 with GCM or Poly1305. `secret` has the size of the suite's digest.
  TlsRecordCipher(const SSL_CIPHER& suite, std::string secret, Direction direction);
  ~TlsRecordCipher();
  TlsRecordCipher(const TlsRecordCipher&) = delete;
  TlsRecordCipher& operator=(const TlsRecordCipher&) = delete;

  // Appends a record to `output`. Returns false on failure. REQUIRES: kSeal, and the content has at
  // most kMaxContent bytes.
  bool Seal(const Record& record, std::string& output);

  // Decrypts a record of at most kMaxSealed bytes and a header. The result is valid until the next
  // Open on this thread, or nullopt if the record is not authentic. REQUIRES: kOpen.
  std::optional<Record> Open(std::string_view sealed);

  // Replaces the secret by the next one, as both ends do after a KeyUpdate.
  void Update();

  // The number of records since the last Update.
  std::uint64_t records() const { return sequence_; }

 private:
  static constexpr std::size_t kNonceBytes = 12;
  using Nonce = std::array<unsigned char, kNonceBytes>;

  struct FreeContext {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  };

  bool Expand(std::string_view label, std::string& expanded) const;
  bool UseSecret();
  Nonce NextNonce();

  const SSL_CIPHER& suite_;
  const Direction direction_;
  std::string secret_;
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> context_;
  Nonce iv_{};
  std::uint64_t sequence_ = 0;  // of the next record with this secret
  bool usable_ = false;         // false if OpenSSL has failed: no record may be sealed or opened
};

}  // namespace sluice::net
