#include "net/tls_record_cipher.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>

#include <algorithm>
#include <utility>

namespace sluice::net {
namespace {

constexpr std::size_t kTagBytes = 16;

unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

int Size(std::string_view text) { return static_cast<int>(text.size()); }

OSSL_PARAM Octets(const char* name, std::string_view value) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(value.data()), value.size());
}

// The record's header, which is authenticated with it. TLS 1.3 always sends the version of TLS 1.2.
std::string_view AppendHeader(std::size_t sealed_size, std::string& output) {
  const std::size_t at = output.size();
  output += {SSL3_RT_APPLICATION_DATA, 3, 3, static_cast<char>(sealed_size >> 8U),
             static_cast<char>(sealed_size)};
  return std::string_view(output).substr(at);
}

}  // namespace

TlsRecordCipher::TlsRecordCipher(const SSL_CIPHER& suite, std::string secret, Direction direction)
    : suite_(suite),
      direction_(direction),
      secret_(std::move(secret)),
      context_(EVP_CIPHER_CTX_new()) {
  usable_ = UseSecret();
}

TlsRecordCipher::~TlsRecordCipher() { OPENSSL_cleanse(secret_.data(), secret_.size()); }

bool TlsRecordCipher::UseSecret() {
  const EVP_CIPHER* const cipher = EVP_get_cipherbynid(SSL_CIPHER_get_cipher_nid(&suite_));
  const EVP_MD* const digest = SSL_CIPHER_get_handshake_digest(&suite_);
  if (cipher == nullptr || std::cmp_not_equal(secret_.size(), EVP_MD_get_size(digest)))
    return false;
  std::string key(static_cast<std::size_t>(EVP_CIPHER_get_key_length(cipher)), '\0');
  std::string iv(iv_.size(), '\0');
  const bool done = Expand("key", key) && Expand("iv", iv) &&
                    EVP_CipherInit_ex2(context_.get(), cipher, Bytes(key), nullptr,
                                       direction_ == Direction::kSeal ? 1 : 0, nullptr) == 1;
  OPENSSL_cleanse(key.data(), key.size());
  std::ranges::copy(iv, iv_.begin());
  sequence_ = 0;
  return done;
}

void TlsRecordCipher::Update() {
  std::string next(secret_.size(), '\0');
  usable_ = usable_ && Expand("traffic upd", next);
  secret_.swap(next);
  OPENSSL_cleanse(next.data(), next.size());
  usable_ = usable_ && UseSecret();
}

// HKDF-Expand-Label of the secret, as many bytes as `expanded` has. Returns false on failure.
bool TlsRecordCipher::Expand(std::string_view label, std::string& expanded) const {
  static EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf),
                                                                          EVP_KDF_CTX_free);
  const char* const digest = EVP_MD_get0_name(SSL_CIPHER_get_handshake_digest(&suite_));
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const std::array parameters{
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(digest), 0),
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      Octets(OSSL_KDF_PARAM_KEY, secret_),
      Octets(OSSL_KDF_PARAM_PREFIX, "tls13 "),
      Octets(OSSL_KDF_PARAM_LABEL, label),
      OSSL_PARAM_construct_end()};
  return context != nullptr &&
         EVP_KDF_derive(context.get(), Bytes(expanded), expanded.size(), parameters.data()) == 1;
}

TlsRecordCipher::Nonce TlsRecordCipher::NextNonce() {
  Nonce nonce = iv_;
  for (std::size_t i = 0; i < sizeof sequence_; ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<unsigned char>(sequence_ >> (8 * i));
  }
  ++sequence_;
  return nonce;
}

bool TlsRecordCipher::Seal(const Record& record, std::string& output) {
  if (!usable_) return false;
  EVP_CIPHER_CTX* const context = context_.get();
  const std::size_t inner_size = record.content.size() + 1;
  const std::size_t sealed_size = inner_size + kTagBytes;
  output.reserve(output.size() + kHeaderBytes + sealed_size);
  const std::string_view header = AppendHeader(sealed_size, output);
  unsigned char* const inner = Bytes(output) + output.size();
  output += record.content;
  output += static_cast<char>(record.type);
  output.append(kTagBytes, '\0');
  std::array tag{
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, inner + inner_size, kTagBytes),
      OSSL_PARAM_construct_end()};
  int done = 0;
  return EVP_CipherInit_ex2(context, nullptr, nullptr, NextNonce().data(), -1, nullptr) == 1 &&
         EVP_CipherUpdate(context, nullptr, &done, Bytes(header), Size(header)) == 1 &&
         EVP_CipherUpdate(context, inner, &done, inner, static_cast<int>(inner_size)) == 1 &&
         EVP_CipherFinal_ex(context, inner + inner_size, &done) == 1 &&
         EVP_CIPHER_CTX_get_params(context, tag.data()) == 1;
}

std::optional<TlsRecordCipher::Record> TlsRecordCipher::Open(std::string_view sealed) {
  thread_local std::array<unsigned char, kMaxSealed> opened;
  EVP_CIPHER_CTX* const context = context_.get();
  const std::string_view header = sealed.substr(0, kHeaderBytes);
  sealed.remove_prefix(kHeaderBytes);
  if (!usable_ || sealed.size() < kTagBytes) return std::nullopt;
  const std::array tag{Octets(OSSL_CIPHER_PARAM_AEAD_TAG, sealed.substr(sealed.size() - kTagBytes)),
                       OSSL_PARAM_construct_end()};
  sealed.remove_suffix(kTagBytes);
  int done = 0;
  int rest = 0;
  const bool authentic =
      EVP_CipherInit_ex2(context, nullptr, nullptr, NextNonce().data(), -1, tag.data()) == 1 &&
      EVP_CipherUpdate(context, nullptr, &done, Bytes(header), Size(header)) == 1 &&
      EVP_CipherUpdate(context, opened.data(), &done, Bytes(sealed), Size(sealed)) == 1 &&
      EVP_CipherFinal_ex(context, opened.data() + done, &rest) == 1;
  if (!authentic) return std::nullopt;
  const std::string_view inner(reinterpret_cast<const char*>(opened.data()), sealed.size());
  const std::size_t type_at = inner.find_last_not_of('\0');  // zeros may pad the content
  if (type_at == std::string_view::npos) return Record{};
  return Record{.type = static_cast<std::uint8_t>(inner[type_at]),
                .content = inner.substr(0, type_at)};
}

}  // namespace sluice::net
