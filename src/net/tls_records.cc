#include "net/tls_records.h"

#include <openssl/err.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace sluice::net {
namespace {

using Direction = TlsRecordCipher::Direction;

// A message's type and the three bytes of its size.
constexpr std::size_t kMessageHeaderBytes = 4;

// The maximum size of a message. OpenSSL's limit for session tickets is lower.
constexpr std::size_t kMaxMessage = 64 * 1024;

// How many records in a row may have no application data. Each key update costs a few derivations.
constexpr int kMaxRecordsWithoutData = 32;

std::size_t Number(std::string_view bytes) {
  std::size_t number = 0;
  for (const char byte : bytes) number = number << 8U | static_cast<unsigned char>(byte);
  return number;
}

// OpenSSL's text for an alert of the peer.
const char* AlertText(std::uint8_t alert) {
  const char* const text =
      ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, SSL_AD_REASON_OFFSET + alert));
  return text != nullptr ? text : "unknown alert";
}

}  // namespace

TlsRecords::TlsRecords(const SSL_CIPHER& suite, Secrets secrets, std::uint64_t records_per_key)
    : records_per_key_(records_per_key),
      opener_(suite, std::move(secrets.read), Direction::kOpen),
      sealer_(suite, std::move(secrets.write), Direction::kSeal) {}

TlsRecords::Progress TlsRecords::Read(std::string_view& input, std::string& output,
                                      std::string_view& plain) {
  constexpr std::size_t kHeader = TlsRecordCipher::kHeaderBytes;
  Progress progress = Progress::kNeedsInput;
  while (progress == Progress::kNeedsInput && input.size() >= kHeader) {
    if (input[0] != SSL3_RT_APPLICATION_DATA) return Fail(SSL_AD_UNEXPECTED_MESSAGE, output);
    const std::size_t size = Number(input.substr(3, 2));
    if (size > TlsRecordCipher::kMaxSealed) return Fail(SSL_AD_RECORD_OVERFLOW, output);
    if (input.size() < kHeader + size) break;
    const auto record = opener_.Open(input.substr(0, kHeader + size));
    input.remove_prefix(kHeader + size);
    if (!record) return Fail(SSL_AD_BAD_RECORD_MAC, output);
    progress = Process(*record, output, plain);
    records_without_data_ = progress == Progress::kNeedsInput ? records_without_data_ + 1 : 0;
    if (records_without_data_ > kMaxRecordsWithoutData) {
      return Fail(SSL_AD_UNEXPECTED_MESSAGE, output);
    }
  }
  return progress;
}

// Returns kNeedsInput if the caller must read on.
TlsRecords::Progress TlsRecords::Process(const Record& record, std::string& output,
                                         std::string_view& plain) {
  if (record.content.size() > TlsRecordCipher::kMaxContent) {
    return Fail(SSL_AD_RECORD_OVERFLOW, output);
  }
  if (record.type == SSL3_RT_HANDSHAKE) return ProcessMessages(record.content, output);
  if (!messages_.empty()) return Fail(SSL_AD_UNEXPECTED_MESSAGE, output);
  if (record.type == SSL3_RT_ALERT) return ProcessAlert(record.content, output);
  if (record.type != SSL3_RT_APPLICATION_DATA) return Fail(SSL_AD_UNEXPECTED_MESSAGE, output);
  plain = record.content;
  return plain.empty() ? Progress::kNeedsInput : Progress::kDone;
}

TlsRecords::Progress TlsRecords::ProcessAlert(std::string_view content, std::string& output) {
  if (content.size() != 2) return Fail(SSL_AD_DECODE_ERROR, output);
  const auto alert = static_cast<std::uint8_t>(content[1]);
  if (alert == SSL_AD_CLOSE_NOTIFY) return Progress::kEnded;
  if (alert == SSL_AD_USER_CANCELLED) return Progress::kNeedsInput;  // close_notify follows
  error_ = AlertText(alert);
  return Progress::kFailed;
}

// A message may span records, and a record may have several.
TlsRecords::Progress TlsRecords::ProcessMessages(std::string_view content, std::string& output) {
  messages_ += content;
  std::string_view rest = messages_;
  while (rest.size() >= kMessageHeaderBytes) {
    const std::size_t size = kMessageHeaderBytes + Number(rest.substr(1, 3));
    if (size > kMaxMessage) return Fail(SSL_AD_DECODE_ERROR, output);
    if (rest.size() < size) break;
    const char type = rest[0];
    const std::string_view body = rest.substr(kMessageHeaderBytes, size - kMessageHeaderBytes);
    rest.remove_prefix(size);
    if (type == SSL3_MT_NEWSESSION_TICKET) continue;
    // The bytes after a key update have the new key, so they come in another record.
    if (type != SSL3_MT_KEY_UPDATE || !rest.empty()) return Fail(SSL_AD_UNEXPECTED_MESSAGE, output);
    if (ProcessKeyUpdate(body, output) == Progress::kFailed) return Progress::kFailed;
  }
  messages_ = std::string(rest);
  return Progress::kNeedsInput;
}

TlsRecords::Progress TlsRecords::ProcessKeyUpdate(std::string_view body, std::string& output) {
  const bool requested = body == std::string_view("\1", 1);
  if (!requested && body != std::string_view("\0", 1)) {
    return Fail(SSL_AD_ILLEGAL_PARAMETER, output);
  }
  opener_.Update();
  if (requested && !UpdateKey(output)) return Fail(SSL_AD_INTERNAL_ERROR, output);
  return Progress::kNeedsInput;
}

// Switches to a new key for writing.
bool TlsRecords::UpdateKey(std::string& output) {
  constexpr std::string_view kMessage("\x18\0\0\1\0", 5);  // requests no update of the peer
  if (!sealer_.Seal({.type = SSL3_RT_HANDSHAKE, .content = kMessage}, output)) return false;
  sealer_.Update();
  return true;
}

bool TlsRecords::Write(std::string_view plain, std::string& output) {
  while (!plain.empty()) {
    const std::size_t size = std::min(plain.size(), TlsRecordCipher::kMaxContent);
    const bool is_last = sealer_.records() + 1 >= records_per_key_;
    if ((is_last && !UpdateKey(output)) ||
        !sealer_.Seal({.type = SSL3_RT_APPLICATION_DATA, .content = plain.substr(0, size)},
                      output)) {
      error_ = "encryption failed";
      return false;
    }
    plain.remove_prefix(size);
  }
  return true;
}

TlsRecords::Progress TlsRecords::Fail(std::uint8_t alert, std::string& output) {
  error_ = SSL_alert_desc_string_long(alert);
  SendAlert(alert, output);
  return Progress::kFailed;
}

void TlsRecords::SendAlert(std::uint8_t alert, std::string& output) {
  constexpr char kWarning = 1;
  constexpr char kFatal = 2;
  const std::array content{alert == SSL_AD_CLOSE_NOTIFY ? kWarning : kFatal,
                           static_cast<char>(alert)};
  sealer_.Seal({.type = SSL3_RT_ALERT, .content = {content.data(), content.size()}}, output);
}

}  // namespace sluice::net
