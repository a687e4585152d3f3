#include "net/tls_session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "net/socket.h"
#include "net/tls_pem.h"
#include "net/transport.h"

namespace sluice::net {
namespace {

std::string IpText(const ASN1_OCTET_STRING& ip) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(&ip) == 4 ? AF_INET : AF_INET6;
  inet_ntop(family, ASN1_STRING_get0_data(&ip), text.data(), text.size());
  return text.data();
}

// Empty for kinds of names that nobody can be named by here.
std::string NameText(const GENERAL_NAME& name) {
  switch (name.type) {
    case GEN_DNS:
    case GEN_URI:
    case GEN_EMAIL: {
      const ASN1_IA5STRING& text = *name.d.ia5;
      return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
              static_cast<std::size_t>(ASN1_STRING_length(&text))};
    }
    case GEN_IPADD:
      return IpText(*name.d.iPAddress);
    default:
      return {};
  }
}

bool IsNumeric(const std::string& host) {
  return Endpoint::FromNumeric({.host = host, .unix_path = {}}).has_value();
}

}  // namespace

TlsSession::TlsSession(std::shared_ptr<const TlsSetup> setup)
    : setup_(std::move(setup)), ssl_(SSL_new(setup_->context.get())) {
  Open();
  SSL_set_accept_state(ssl_.get());
}

TlsSession::TlsSession(std::shared_ptr<const TlsSetup> setup, const std::string& server_name)
    : setup_(std::move(setup)), ssl_(SSL_new(setup_->context.get())) {
  Open();
  SSL_set_connect_state(ssl_.get());
  if (IsNumeric(server_name)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), server_name.c_str());
  } else {
    SSL_set1_host(ssl_.get(), server_name.c_str());
    SSL_set_tlsext_host_name(ssl_.get(), server_name.c_str());
  }
}

void TlsSession::Open() {
  BIO* const bio = BIO_new(EndsMethod());
  BIO_set_data(bio, &ends_);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
}

const BIO_METHOD* TlsSession::EndsMethod() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ends");
    BIO_meth_set_read(made, ReadInput);
    BIO_meth_set_write(made, WriteOutput);
    BIO_meth_set_ctrl(made, [](BIO*, int command, long, void*) -> long {
      return command == BIO_CTRL_FLUSH ? 1 : 0;
    });
    return made;
  }();
  return method;
}

int TlsSession::ReadInput(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  std::string_view* const input = static_cast<Ends*>(BIO_get_data(bio))->input;
  if (input == nullptr || input->empty()) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const std::size_t count = std::min(input->size(), static_cast<std::size_t>(size));
  std::memcpy(data, input->data(), count);
  input->remove_prefix(count);
  return static_cast<int>(count);
}

int TlsSession::WriteOutput(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  static_cast<Ends*>(BIO_get_data(bio))->output->append(data, static_cast<std::size_t>(size));
  return size;
}

TlsSession::Progress TlsSession::Handshake(std::string_view& input, std::string& output) {
  ERR_clear_error();
  ends_ = {.input = &input, .output = &output};
  return After(SSL_do_handshake(ssl_.get()));
}

TlsSession::Progress TlsSession::Read(std::string_view& input, std::string& output,
                                      std::string_view& plain) {
  thread_local std::array<char, Transport::kReadBytes> buffer;
  ERR_clear_error();
  ends_ = {.input = &input, .output = &output};
  const int got = SSL_read(ssl_.get(), buffer.data(), buffer.size());
  if (got > 0) plain = {buffer.data(), static_cast<std::size_t>(got)};
  return After(got);
}

bool TlsSession::Write(std::string_view plain, std::string& output) {
  ERR_clear_error();
  ends_ = {.output = &output};
  std::size_t written = 0;
  return After(SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written)) == Progress::kDone;
}

void TlsSession::Finish(std::string& output) {
  ERR_clear_error();
  ends_ = {.output = &output};
  SSL_shutdown(ssl_.get());
}

TlsSession::Progress TlsSession::After(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  ends_ = {};
  switch (kind) {
    case SSL_ERROR_NONE:
      return Progress::kDone;
    case SSL_ERROR_WANT_READ:
      return Progress::kNeedsInput;
    case SSL_ERROR_ZERO_RETURN:
      return Progress::kEnded;
    default:
      error_ = TlsErrorText();
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    error_ += fmt::format(" ({})", X509_verify_cert_error_string(verified));
  }
  return Progress::kFailed;
}

std::vector<std::string> TlsSession::PeerIdentities() const {
  std::vector<std::string> identities;
  const X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  const bool verified = (SSL_get_verify_mode(ssl_.get()) & SSL_VERIFY_PEER) != 0 &&
                        SSL_get_verify_result(ssl_.get()) == X509_V_OK;
  if (certificate == nullptr || !verified) return identities;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    std::string text = NameText(*sk_GENERAL_NAME_value(names, i));
    // A name with a zero byte would look like a shorter one to some.
    if (!text.empty() && text.find('\0') == std::string::npos) {
      identities.push_back(std::move(text));
    }
  }
  GENERAL_NAMES_free(names);
  return identities;
}

void TlsSession::SetUpServer(SSL_CTX& context) {
  SSL_CTX_set_alpn_select_cb(&context, ChooseProtocol, nullptr);
  SSL_CTX_set_client_hello_cb(&context, CheckHello, nullptr);
}

// The first of ours that the client offers.
int TlsSession::ChooseProtocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                               const unsigned char* offered, unsigned offered_size, void*) {
  const std::string& ours = static_cast<TlsSession*>(SSL_get_app_data(ssl))->setup_->alpn;
  if (ours.empty()) return SSL_TLSEXT_ERR_NOACK;
  unsigned char* found = nullptr;
  const int result = SSL_select_next_proto(
      &found, chosen_size, reinterpret_cast<const unsigned char*>(ours.data()),
      static_cast<unsigned>(ours.size()), offered, offered_size);
  *chosen = found;
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

// A client that offers no protocols at all never comes to the choice.
int TlsSession::CheckHello(SSL* ssl, int* alert, void*) {
  const TlsSetup& setup = *static_cast<TlsSession*>(SSL_get_app_data(ssl))->setup_;
  const unsigned char* offered = nullptr;
  std::size_t size = 0;
  const bool offers =
      SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
                                &size) == 1;
  if (offers || !setup.alpn_required) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
  return SSL_CLIENT_HELLO_ERROR;
}

}  // namespace sluice::net
