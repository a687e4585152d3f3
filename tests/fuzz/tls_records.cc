// Records of TLS 1.3 from a peer that has done the handshake: each record of the input has a type,
// two bytes of size, and its content. Records of type 255 are sent unchanged, the others encrypted.
#include "net/tls_records.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using sluice::net::TlsRecordCipher;
using sluice::net::TlsRecords;

const SSL_CIPHER& Suite() {
  constexpr unsigned char kAes128[] = {0x13, 0x01};
  static SSL* const ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
  return *SSL_CIPHER_find(ssl, kAes128);
}

void AppendRecord(TlsRecordCipher& peer, std::uint8_t type, std::string_view content,
                  std::string& sent) {
  if (type == 255) {
    sent += content;
    return;
  }
  peer.Seal({.type = type, .content = content}, sent);
  if (type == SSL3_RT_HANDSHAKE && content.starts_with(SSL3_MT_KEY_UPDATE)) peer.Update();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string secret(32, 's');
  TlsRecordCipher peer(Suite(), secret, TlsRecordCipher::Direction::kSeal);
  TlsRecords records(Suite(), {.read = secret, .write = secret});
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string sent;
  while (rest.size() > 3) {
    const std::size_t length = data[size - rest.size() + 1] * 256U + data[size - rest.size() + 2];
    AppendRecord(peer, static_cast<std::uint8_t>(rest[0]), rest.substr(3, length), sent);
    rest.remove_prefix(std::min(rest.size(), 3 + length));
  }
  std::string_view input = sent;
  std::string output;
  std::string_view plain;
  auto progress = TlsRecords::Progress::kDone;
  while (progress == TlsRecords::Progress::kDone) {
    progress = records.Read(input, output, plain);
    if (progress == TlsRecords::Progress::kDone && plain.empty()) std::abort();
    if (progress == TlsRecords::Progress::kFailed && records.error().empty()) std::abort();
  }
  return 0;
}
