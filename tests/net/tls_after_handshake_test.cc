// After the handshake: the peer's messages other than data, and the limit on the size of records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_session.h"
#include "tests/net/tls_connection.h"

namespace sluice::net {
namespace {

using namespace std::string_literals;
using ::testing::StartsWith;

TEST(TlsAfterHandshake, EachCipherSuite_CarriesBytesAcrossKeyUpdates) {
  const auto context = Load(ServerOptions());
  const std::string sent = Pattern(50'000);
  for (const std::string suite :
       {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}) {
    TlsConnection connection(*context);
    ASSERT_EQ(SSL_set_ciphersuites(connection.client.ssl(), suite.c_str()), 1);
    ASSERT_EQ(connection.client.Handshake(), "");
    EXPECT_EQ(SSL_get_cipher(connection.client.ssl()), suite);
    std::size_t expected = 0;
    for (const int update : {SSL_KEY_UPDATE_NOT_REQUESTED, SSL_KEY_UPDATE_REQUESTED}) {
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(SSL_key_update(connection.client.ssl(), update), 1);
        ASSERT_TRUE(connection.client.Send(sent));
        expected += sent.size();
        ASSERT_TRUE(
            connection.Eventually([&] { return connection.server.received.size() == expected; }));
        connection.Send(sent);
        ASSERT_EQ(connection.client.Read(sent.size()), sent) << connection.client.error();
      }
    }
  }
}

void UpdateKeys(TlsClient& client, int count) {
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(SSL_key_update(client.ssl(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(client.ssl()), 1);
  }
}

TEST(TlsAfterHandshake, KeyUpdatesWithoutDataInBetween_AreBounded) {
  const auto context = Load(ServerOptions());
  TlsConnection connection(*context);
  ASSERT_EQ(connection.client.Handshake(), "");
  for (const std::string all : {"x", "xx"}) {
    UpdateKeys(connection.client, TlsSession::kMaxKeyUpdates);
    ASSERT_TRUE(connection.client.Send("x"));
    ASSERT_TRUE(connection.Eventually([&] { return connection.server.received == all; }));
  }
  UpdateKeys(connection.client, TlsSession::kMaxKeyUpdates + 1);
  EXPECT_EQ(connection.ServerError(), "TLS: too many key updates");
}

TEST(TlsAfterHandshake, NegotiatedFragmentLength_BoundsTheRecordsSent) {
  const auto context = Load(ServerOptions());
  const std::string sent = Pattern(50'000);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsConnection connection(*context, {.version = version});
    SSL* const client = connection.client.ssl();
    ASSERT_EQ(SSL_set_tlsext_max_fragment_length(client, TLSEXT_max_fragment_length_512), 1);
    ASSERT_EQ(connection.client.Handshake(), "");
    ASSERT_EQ(SSL_SESSION_get_max_fragment_length(SSL_get_session(client)),
              TLSEXT_max_fragment_length_512);
    connection.Send(sent);
    EXPECT_EQ(connection.client.Read(sent.size()), sent) << connection.client.error();
  }
}

struct Record {
  char type = 0;
  std::string_view content;
};

// Encrypts arbitrary records like a TLS 1.3 client that has sent no data yet.
class ClientRecords {
 public:
  // REQUIRES: before the handshake.
  explicit ClientRecords(SSL* ssl) {
    SSL_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256");
    SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(ssl), [](const SSL*, const char* line) {
      const std::string_view text = line;
      if (text.starts_with("CLIENT_TRAFFIC_SECRET_0 ")) {
        Secret() = text.substr(text.rfind(' ') + 1);
      }
    });
  }

  std::string Encrypt(const Record& record) {
    const std::string plain = std::string(record.content) + record.type;
    const std::size_t size = plain.size() + kTagBytes;
    std::string sent = {SSL3_RT_APPLICATION_DATA, 3, 3, static_cast<char>(size >> 8U),
                        static_cast<char>(size)};
    std::string nonce = Derive("iv", 12);
    nonce.back() ^= static_cast<char>(sequence_++);
    const std::string key = Derive("key", 16);
    const std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> cipher(
        EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
    EVP_EncryptInit_ex(cipher.get(), EVP_aes_128_gcm(), nullptr, Bytes(key), Bytes(nonce));
    int written = 0;
    EVP_EncryptUpdate(cipher.get(), nullptr, &written, Bytes(sent), static_cast<int>(sent.size()));
    std::string sealed(size, '\0');
    auto* const out = reinterpret_cast<unsigned char*>(sealed.data());
    EVP_EncryptUpdate(cipher.get(), out, &written, Bytes(plain), static_cast<int>(plain.size()));
    EVP_EncryptFinal_ex(cipher.get(), out + written, &written);
    EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes, out + plain.size());
    return sent + sealed;
  }

 private:
  static constexpr int kTagBytes = 16;

  // The secret of the last handshake, in hexadecimal.
  static std::string& Secret() {
    static std::string secret;
    return secret;
  }

  static const unsigned char* Bytes(std::string_view text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  }

  static OSSL_PARAM Octets(const char* name, std::string_view value) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(value.data()), value.size());
  }

  // HKDF-Expand-Label of the secret (RFC 8446, section 7.1).
  static std::string Derive(std::string_view label, std::size_t size) {
    static EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr);
    const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf),
                                                                            EVP_KDF_CTX_free);
    std::string secret(Secret().size() / 2, '\0');
    std::size_t used = 0;
    OPENSSL_hexstr2buf_ex(reinterpret_cast<unsigned char*>(secret.data()), secret.size(), &used,
                          Secret().c_str(), '\0');
    std::string digest = "SHA256";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    const std::array parameters{
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        Octets(OSSL_KDF_PARAM_KEY, secret),
        Octets(OSSL_KDF_PARAM_PREFIX, "tls13 "),
        Octets(OSSL_KDF_PARAM_LABEL, label),
        OSSL_PARAM_construct_end()};
    std::string derived(size, '\0');
    EVP_KDF_derive(context.get(), reinterpret_cast<unsigned char*>(derived.data()), size,
                   parameters.data());
    return derived;
  }

  int sequence_ = 0;
};

struct Breach {
  const char* what;
  std::vector<Record> records;
  const char* error;
};

// When the first bytes of a bad message arrive, the server must refuse the message. It must not
// buffer the rest.
TEST(TlsAfterHandshake, ProtocolViolations_CloseTheConnectionAtOnce) {
  constexpr char kData = SSL3_RT_APPLICATION_DATA;
  constexpr char kHandshake = SSL3_RT_HANDSHAKE;
  const auto context = Load(ServerOptions());
  for (const Breach& breach : std::vector<Breach>{
           {"a ticket of 64 KB, which clients never send",
            {{kHandshake, {"\x04\0\xff\xff", 4}}},
            "unexpected message"},
           {"a key update of 64 KB", {{kHandshake, {"\x18\0\xff\xff", 4}}}, "excessive message"},
           {"a key update of an unknown kind", {{kHandshake, {"\x18\0\0\x01\x02", 5}}}, "bad key"},
           {"bytes after a key update",
            {{kHandshake, {"\x18\0\0\x01\0\x18", 6}}},
            "not on record boundary"},
           {"a record of an unknown type", {{99, "x"}}, "bad record type"},
           {"many empty records", std::vector<Record>(40, {kData, ""}), "record too small"},
       }) {
    SCOPED_TRACE(breach.what);
    TlsConnection connection(*context);
    ClientRecords records(connection.client.ssl());
    ASSERT_EQ(connection.client.Handshake(), "");
    connection.client.socket().Send(records.Encrypt({kData, "fine"}));
    ASSERT_TRUE(connection.Eventually([&] { return connection.server.received == "fine"; }));
    std::string sent;
    for (const Record& record : breach.records) sent += records.Encrypt(record);
    connection.client.socket().Send(sent);
    EXPECT_THAT(connection.ServerError(), StartsWith("TLS: "s + breach.error));
  }
}

}  // namespace
}  // namespace sluice::net
