#include "net/tls_session.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "net/socket.h"
#include "net/transport.h"

namespace sluice::net {
namespace {

// Returns an empty string if `ip` does not have the length of an address: OpenSSL does not check
// the length.
std::string IpOf(const ASN1_OCTET_STRING& ip) {
  const int length = ASN1_STRING_length(&ip);
  if (length != 4 && length != 16) return {};
  return IpText(length == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(&ip));
}

// Returns an empty string for unsupported types of names.
std::string IdentityOf(const GENERAL_NAME& name) {
  const auto with_type = [](std::string_view type, std::string_view text) {
    return text.empty() ? std::string() : fmt::format("{}:{}", type, text);
  };
  if (name.type == GEN_IPADD) return with_type("ip", IpOf(*name.d.iPAddress));
  const bool is_text = name.type == GEN_DNS || name.type == GEN_URI || name.type == GEN_EMAIL;
  if (!is_text) return {};
  const ASN1_IA5STRING& text = *name.d.ia5;
  return with_type(name.type == GEN_DNS   ? "dns"
                   : name.type == GEN_URI ? "uri"
                                          : "email",
                   {reinterpret_cast<const char*>(ASN1_STRING_get0_data(&text)),
                    static_cast<std::size_t>(ASN1_STRING_length(&text))});
}

// ERR_clear_error is slow even if there is nothing to clear.
void ClearErrors() {
  if (ERR_peek_error() != 0) ERR_clear_error();
}

std::vector<std::string> IdentitiesOf(const SSL& ssl) {
  std::vector<std::string> identities;
  const X509* const certificate = SSL_get0_peer_certificate(&ssl);
  const bool verified = (SSL_get_verify_mode(&ssl) & SSL_VERIFY_PEER) != 0 &&
                        SSL_get_verify_result(&ssl) == X509_V_OK;
  if (certificate == nullptr || !verified) return identities;
  auto* const names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    std::string text = IdentityOf(*sk_GENERAL_NAME_value(names, i));
    // Names with a NUL byte are ignored, because some code would truncate them at that byte.
    if (!text.empty() && text.find('\0') == std::string::npos) {
      identities.push_back(std::move(text));
    }
  }
  GENERAL_NAMES_free(names);
  return identities;
}

}  // namespace

std::string TlsErrorText() {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return reason == nullptr ? fmt::format("error {:x}", error) : reason;
}

struct TlsSession::Callbacks {
  static int ReadInput(BIO* bio, char* data, int size) {
    BIO_clear_retry_flags(bio);
    TlsSession& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    if (session.key_updates_ > kMaxKeyUpdates) return -1;  // ends OpenSSL's call
    std::string_view* const input = session.buffers_.input;
    if (input == nullptr || input->empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const std::size_t count = std::min(input->size(), static_cast<std::size_t>(size));
    std::memcpy(data, input->data(), count);
    input->remove_prefix(count);
    return static_cast<int>(count);
  }

  static int WriteOutput(BIO* bio, const char* data, int size) {
    BIO_clear_retry_flags(bio);
    TlsSession& session = *static_cast<TlsSession*>(BIO_get_data(bio));
    session.buffers_.output->append(data, static_cast<std::size_t>(size));
    return size;
  }

  static const BIO_METHOD* BioMethod() {
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

  // OpenSSL calls this for every message of both ends.
  static void CountKeyUpdate(int is_sent, int, int type, const void* message, std::size_t size,
                             SSL*, void* session) {
    const auto* const bytes = static_cast<const unsigned char*>(message);
    const bool is_peers = is_sent == 0 && type == SSL3_RT_HANDSHAKE && size > 0;
    if (is_peers && *bytes == SSL3_MT_KEY_UPDATE) ++static_cast<TlsSession*>(session)->key_updates_;
  }

  // If Alpn::protocol is empty, ignores the client's offer. If the client offers Alpn::protocol,
  // chooses it. Otherwise rejects the client.
  static int ChooseProtocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                            const unsigned char* offered, unsigned offered_size, void*) {
    const std::string_view ours = static_cast<TlsSession*>(SSL_get_app_data(ssl))->alpn_.protocol;
    if (ours.empty()) return SSL_TLSEXT_ERR_NOACK;
    unsigned char* found = nullptr;
    const int result = SSL_select_next_proto(
        &found, chosen_size, reinterpret_cast<const unsigned char*>(ours.data()),
        static_cast<unsigned>(ours.size()), offered, offered_size);
    *chosen = found;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
  }

  // If a protocol is required, rejects clients that offer none. For these, OpenSSL does not call
  // ChooseProtocol.
  static int CheckHello(SSL* ssl, int* alert, void*) {
    const Alpn& alpn = static_cast<TlsSession*>(SSL_get_app_data(ssl))->alpn_;
    const unsigned char* offered = nullptr;
    std::size_t size = 0;
    const bool offers =
        SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &offered,
                                  &size) == 1;
    if (offers || !alpn.required) return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
  }
};

TlsSession::TlsSession(std::shared_ptr<const TlsSetup> setup, Alpn alpn)
    : setup_(std::move(setup)), alpn_(alpn), ssl_(SSL_new(setup_->context.get())) {
  Open();
  SSL_set_accept_state(ssl_.get());
}

TlsSession::TlsSession(std::shared_ptr<const TlsSetup> setup, const std::string& server_name)
    : setup_(std::move(setup)), alpn_(), ssl_(SSL_new(setup_->context.get())) {
  Open();
  SSL_set_connect_state(ssl_.get());
  if (Endpoint::FromNumeric({.host = server_name, .unix_path = {}})) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), server_name.c_str());
  } else {
    SSL_set1_host(ssl_.get(), server_name.c_str());
    SSL_set_tlsext_host_name(ssl_.get(), server_name.c_str());
  }
}

void TlsSession::Open() {
  BIO* const bio = BIO_new(Callbacks::BioMethod());
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_msg_callback(ssl_.get(), Callbacks::CountKeyUpdate);
  SSL_set_msg_callback_arg(ssl_.get(), this);
}

TlsSession::Progress TlsSession::Handshake(std::string_view& input, std::string& output) {
  ClearErrors();
  buffers_ = {.input = &input, .output = &output};
  const Progress progress = After(SSL_do_handshake(ssl_.get()));
  if (progress == Progress::kDone) peer_identities_ = IdentitiesOf(*ssl_);
  return progress;
}

TlsSession::Progress TlsSession::Read(std::string_view& input, std::string& output,
                                      std::string_view& plain) {
  thread_local std::array<char, Transport::kReadBytes> buffer;
  ClearErrors();
  buffers_ = {.input = &input, .output = &output};
  const int got = SSL_read(ssl_.get(), buffer.data(), buffer.size());
  if (got > 0) {
    key_updates_ = 0;
    plain = {buffer.data(), static_cast<std::size_t>(got)};
  }
  return After(got);
}

bool TlsSession::Write(std::string_view plain, std::string& output) {
  ClearErrors();
  buffers_ = {.output = &output};
  std::size_t written = 0;
  return After(SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written)) == Progress::kDone;
}

void TlsSession::Finish(std::string& output) {
  ClearErrors();
  buffers_ = {.output = &output};
  SSL_shutdown(ssl_.get());
}

TlsSession::Progress TlsSession::After(int result) {
  const int kind = SSL_get_error(ssl_.get(), result);
  buffers_ = {};
  switch (kind) {
    case SSL_ERROR_NONE:
      return Progress::kDone;
    case SSL_ERROR_WANT_READ:
      return Progress::kNeedsInput;
    case SSL_ERROR_ZERO_RETURN:
      return Progress::kEnded;
    default:
      error_ = key_updates_ > kMaxKeyUpdates ? "too many key updates" : TlsErrorText();
  }
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK) {
    error_ += fmt::format(" ({})", X509_verify_cert_error_string(verified));
  }
  return Progress::kFailed;
}

void TlsSession::SetUpServer(SSL_CTX& context) {
  SSL_CTX_set_alpn_select_cb(&context, Callbacks::ChooseProtocol, nullptr);
  SSL_CTX_set_client_hello_cb(&context, Callbacks::CheckHello, nullptr);
}

}  // namespace sluice::net
