// Records of TLS 1.3 after the handshake, from peers that follow the RFC and from others.
#include "net/tls_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/net/tls_connection.h"

namespace sluice::net {
namespace {

using namespace std::string_literals;
using ::testing::IsEmpty;
using Progress = TlsRecords::Progress;
using Record = TlsRecordCipher::Record;

const SSL_CIPHER& Aes128() {
  constexpr unsigned char kId[] = {0x13, 0x01};
  static const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
      SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  static const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), SSL_free);
  return *SSL_CIPHER_find(ssl.get(), kId);
}

const std::string kOurs(32, 'o');
const std::string kTheirs(32, 't');

// The data that one end has read, and its replies.
struct Outcome {
  Progress progress = Progress::kNeedsInput;
  std::string plain;
  std::string error;
  std::vector<std::string> replies;  // each the type and the content of a record
};

// One end, whose peer seals arbitrary records.
class TlsRecords_Test : public ::testing::Test {
 protected:
  std::string Sealed(const std::vector<Record>& records) {
    std::string sealed;
    for (const Record& record : records) EXPECT_TRUE(peer_.Seal(record, sealed));
    return sealed;
  }

  Outcome Read(std::string_view input) {
    Outcome outcome;
    std::string output;
    do {
      std::string_view plain;
      outcome.progress = records_.Read(input, output, plain);
      outcome.plain += plain;
    } while (outcome.progress == Progress::kDone);
    outcome.error = records_.error();
    outcome.replies = Opened(output);
    return outcome;
  }

  std::vector<std::string> Opened(std::string_view sealed) {
    std::vector<std::string> records;
    while (!sealed.empty()) {
      const std::size_t size = 5 + static_cast<unsigned char>(sealed[4]);
      const auto record = peer_opener_.Open(sealed.substr(0, size));
      sealed.remove_prefix(size);
      if (!record) return {"not authentic"};
      records.push_back(static_cast<char>(record->type) + std::string(record->content));
    }
    return records;
  }

  TlsRecords records_{Aes128(), {.read = kTheirs, .write = kOurs}};
  TlsRecordCipher peer_{Aes128(), kTheirs, TlsRecordCipher::Direction::kSeal};
  TlsRecordCipher peer_opener_{Aes128(), kOurs, TlsRecordCipher::Direction::kOpen};
};

constexpr std::uint8_t kAlert = SSL3_RT_ALERT;
constexpr std::uint8_t kHandshake = SSL3_RT_HANDSHAKE;
constexpr std::uint8_t kData = SSL3_RT_APPLICATION_DATA;

const std::string kTicket = "\x04\0\0\x05"s + "12345";

TEST_F(TlsRecords_Test, RecordsWithoutData_AreReadOver) {
  const std::string_view ticket = kTicket;
  const std::string two_tickets = kTicket + kTicket;
  const std::string input = Sealed({{kData, "a"},
                                    {kData, ""},
                                    {0, {"b\x17\0\0", 4}},  // padded
                                    {kAlert, "\x01\x5a"},
                                    {kHandshake, two_tickets},
                                    {kHandshake, ticket.substr(0, 2)},
                                    {kHandshake, ticket.substr(2)},
                                    {kData, "c"}});
  const Outcome outcome = Read(input);
  EXPECT_EQ(outcome.progress, Progress::kNeedsInput);
  EXPECT_EQ(outcome.plain, "abc");
  EXPECT_THAT(outcome.replies, IsEmpty());
}

TEST_F(TlsRecords_Test, IncompleteRecord_StaysInTheInput) {
  const std::string input = Sealed({{kData, "data"}});
  for (std::size_t size = 0; size < input.size(); ++size) {
    std::string_view part(input.data(), size);
    std::string output;
    std::string_view plain;
    ASSERT_EQ(records_.Read(part, output, plain), Progress::kNeedsInput);
    ASSERT_EQ(part.size(), size);
  }
  EXPECT_EQ(Read(input).plain, "data");
}

TEST_F(TlsRecords_Test, CloseNotify_IsTheEnd) {
  EXPECT_EQ(Read(Sealed({{kAlert, {"\x01\0", 2}}})).progress, Progress::kEnded);
}

TEST_F(TlsRecords_Test, KeyUpdates_AreFollowedAndAnsweredIfRequested) {
  for (int i = 0; i < 3; ++i) {
    std::string input = Sealed({{kHandshake, {"\x18\0\0\x01\0", 5}}});
    peer_.Update();
    input += Sealed({{kData, "x"}, {kHandshake, {"\x18\0\0\x01\x01", 5}}});
    peer_.Update();
    input += Sealed({{kData, "y"}});
    const Outcome outcome = Read(input);
    EXPECT_EQ(outcome.plain, "xy") << outcome.error;
    EXPECT_EQ(outcome.replies, std::vector{"\x16\x18\0\0\x01\0"s});
    peer_opener_.Update();
    std::string output;
    ASSERT_TRUE(records_.Write("answer", output));
    EXPECT_EQ(Opened(output), std::vector{"\x17"s + "answer"});
  }
}

TEST_F(TlsRecords_Test, KeyThatIsUsedUp_IsReplaced) {
  TlsRecords records(Aes128(), {.read = kTheirs, .write = kOurs}, 3);
  for (int i = 0; i < 5; ++i) {
    std::string two;
    ASSERT_TRUE(records.Write("a", two) && records.Write("b", two));
    if (i > 0) {
      const std::size_t size = 5 + static_cast<unsigned char>(two[4]);
      EXPECT_EQ(Opened(two.substr(0, size)), std::vector{"\x16\x18\0\0\x01\0"s});
      peer_opener_.Update();
      two = two.substr(size);
    }
    EXPECT_EQ(Opened(two), (std::vector{"\x17"s + "a", "\x17"s + "b"}));
  }
}

TEST_F(TlsRecords_Test, EndlessRecordsWithoutData_AreNotRead) {
  const std::vector<Record> empty(32, {kData, ""});
  EXPECT_EQ(Read(Sealed(empty)).progress, Progress::kNeedsInput);
  const Outcome outcome = Read(Sealed({{kData, ""}}));
  EXPECT_EQ(outcome.progress, Progress::kFailed);
  EXPECT_EQ(outcome.error, "unexpected_message");
}

TEST_F(TlsRecords_Test, DataBetweenRecordsWithoutIt_IsRead) {
  for (int i = 0; i < 10; ++i) {
    std::vector<Record> records(32, {kData, ""});
    records.push_back({kData, "x"});
    EXPECT_EQ(Read(Sealed(records)).plain, "x");
  }
}

TEST_F(TlsRecords_Test, PeersAlert_IsTheErrorAndNotAnswered) {
  const Outcome outcome = Read(Sealed({{kAlert, "\x02\x30"}}));
  EXPECT_EQ(outcome.progress, Progress::kFailed);
  EXPECT_EQ(outcome.error, "tlsv1 alert unknown ca");
  EXPECT_THAT(outcome.replies, IsEmpty());
}

TEST(TlsRecords_WithoutSecret, NothingIsSealedOrOpened) {
  std::string sealed;
  TlsRecordCipher sealer(Aes128(), "", TlsRecordCipher::Direction::kSeal);
  EXPECT_FALSE(sealer.Seal({kData, "data"}, sealed));
  EXPECT_EQ(sealed, "");
  TlsRecordCipher good(Aes128(), kTheirs, TlsRecordCipher::Direction::kSeal);
  ASSERT_TRUE(good.Seal({kData, "data"}, sealed));
  TlsRecordCipher opener(Aes128(), "", TlsRecordCipher::Direction::kOpen);
  EXPECT_FALSE(opener.Open(sealed));
}

struct Breach {
  const char* what;
  std::vector<Record> records;
  const char* error;
  char alert;
};

TEST(TlsRecords_Breaches, EndWithAnAlert) {
  const std::string big(TlsRecordCipher::kMaxContent + 1, 'x');
  for (const Breach& breach : std::initializer_list<Breach>{
           {"no type", {{0, {}}}, "unexpected_message", 10},
           {"unknown type", {{99, "x"}}, "unexpected_message", 10},
           {"content too large", {{kData, big}}, "record overflow", 22},
           {"short alert", {{kAlert, "\x02"}}, "decode error", 50},
           {"unexpected message", {{kHandshake, {"\x0d\0\0\0", 4}}}, "unexpected_message", 10},
           {"bytes after a key update",
            {{kHandshake, {"\x18\0\0\x01\0\x18", 6}}},
            "unexpected_message",
            10},
           {"key update of no known kind",
            {{kHandshake, {"\x18\0\0\x01\x02", 5}}},
            "illegal parameter",
            47},
           {"data within a message",
            {{kHandshake, {"\x04\0", 2}}, {kData, "x"}},
            "unexpected_message",
            10},
           {"huge message", {{kHandshake, {"\x04\x01\0\0", 4}}}, "decode error", 50}}) {
    SCOPED_TRACE(breach.what);
    TlsRecords records(Aes128(), {.read = kTheirs, .write = kOurs});
    TlsRecordCipher peer(Aes128(), kTheirs, TlsRecordCipher::Direction::kSeal);
    TlsRecordCipher opener(Aes128(), kOurs, TlsRecordCipher::Direction::kOpen);
    std::string sealed;
    for (const Record& record : breach.records) EXPECT_TRUE(peer.Seal(record, sealed));
    std::string_view input = sealed;
    std::string output;
    std::string_view plain;
    EXPECT_EQ(records.Read(input, output, plain), Progress::kFailed);
    EXPECT_EQ(records.error(), breach.error);
    const auto alert = opener.Open(output);
    ASSERT_TRUE(alert);
    EXPECT_EQ(alert->type, kAlert);
    EXPECT_EQ(alert->content, std::string("\x02") + breach.alert);
  }
}

TEST_F(TlsRecords_Test, RecordThatIsNotTheNextOne_IsNotAuthentic) {
  const std::string first = Sealed({{kData, "first"}});
  EXPECT_EQ(Read(first).plain, "first");
  EXPECT_EQ(Read(first).error, "bad record mac");
}

TEST_F(TlsRecords_Test, EachChangedByte_IsNoticed) {
  const std::string sealed = Sealed({{kData, "data"}});
  for (std::size_t at = 0; at < sealed.size(); ++at) {
    TlsRecords records(Aes128(), {.read = kTheirs, .write = kOurs});
    std::string changed = sealed;
    changed[at] ^= 1;
    std::string_view input = changed;
    std::string output;
    std::string_view plain;
    const Progress progress = records.Read(input, output, plain);
    EXPECT_NE(progress, Progress::kDone) << at;
  }
}

// OpenSSL is the client.
TEST(TlsRecords_Interop, EachSuite_CarriesBytesAndFollowsKeyUpdates) {
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

}  // namespace
}  // namespace sluice::net
