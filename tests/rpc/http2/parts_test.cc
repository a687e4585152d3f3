// The server's parts that do no I/O: timeouts, header fields, message framing, encoding of status
// messages, flood detection.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rpc/http2/flood_guard.h"
#include "rpc/http2/frame_writer.h"
#include "rpc/http2/message_reader.h"
#include "rpc/http2/request_head.h"
#include "rpc/http2/shared_state.h"
#include "tests/rpc/http2/raw_client.h"

namespace sluice::rpc::http2 {
namespace {

using std::chrono::nanoseconds;
using Next = MessageReader::Next;
using test::Framed;

TEST(ParseTimeoutTest, Texts_AreParsedAsGrpcSpecifies) {
  const std::vector<std::pair<const char*, std::optional<nanoseconds>>> table = {
      {"1n", nanoseconds(1)},
      {"0m", nanoseconds(0)},
      {"7u", std::chrono::microseconds(7)},
      {"12345678m", std::chrono::milliseconds(12'345'678)},
      {"00000001S", std::chrono::seconds(1)},
      {"3M", std::chrono::minutes(3)},
      {"2H", std::chrono::hours(2)},
      {"99999999H", nanoseconds::max()},
      {"123456789m", std::nullopt},
      {"", std::nullopt},
      {"5", std::nullopt},
      {"m", std::nullopt},
      {"5s", std::nullopt},
      {"-5m", std::nullopt},
      {"+5m", std::nullopt},
      {" 5m", std::nullopt},
      {"5.5S", std::nullopt},
  };
  for (const auto& [text, timeout] : table) EXPECT_EQ(ParseTimeout(text), timeout) << text;
}

TEST(RequestHeadTest, Metadata_HasOnlyRequestedFieldsThatOccurOnce) {
  const std::vector<std::string> names = {"authorization", "twice", "absent"};
  RequestHead head;
  for (const auto& [name, value] : test::RequestHeaders("/a/B", {{"grpc-timeout", "1S"}})) {
    head.Add(name, value, names);
  }
  head.Add("authorization", "Bearer x", names);
  head.Add("twice", "1", names);
  head.Add("twice", "2", names);
  head.Add("other", std::string(1'000, 'o'), names);
  EXPECT_EQ(head.path(), "/a/B");
  EXPECT_TRUE(head.is_post());
  EXPECT_TRUE(head.is_grpc());
  EXPECT_EQ(head.timeout(), std::chrono::seconds(1));
  EXPECT_EQ(head.Metadata("authorization"), "Bearer x");
  EXPECT_EQ(head.Metadata("twice"), std::nullopt);
  for (const char* own : {":path", "te", "content-type", "grpc-timeout", "other", "absent"}) {
    EXPECT_EQ(head.Metadata(own), std::nullopt) << own;
  }
  EXPECT_EQ(head.large_bytes(), 0U);
  head.Clear();
  EXPECT_EQ(head.Metadata("authorization"), std::nullopt);
  EXPECT_FALSE(head.is_post());
}

TEST(RequestHeadTest, Size_OverTheLimit_IsTooLarge) {
  RequestHead head;
  head.Add("x", std::string(RequestHead::kMaxBytes - 33, 'v'), {});
  EXPECT_FALSE(head.too_large());
  head.Add("y", "", {});
  EXPECT_TRUE(head.too_large());
}

TEST(RequestHeadTest, LargeBytes_CountKeptFieldsOnly_AreZeroAfterClear) {
  const std::vector<std::string> names = {"authorization"};
  RequestHead head;
  head.Add(":path", std::string(10'000, 'p'), names);
  for (int i = 0; i < 50; ++i) head.Add("grpc-encoding", std::string(200, 'e'), names);
  EXPECT_EQ(head.large_bytes(), 0U) << "only the beginning of these values is kept";
  head.Clear();
  head.Add("authorization", std::string(4'000, 'a'), names);
  head.Add("authorization", std::string(4'000, 'a'), names);
  EXPECT_EQ(head.large_bytes(), 4'000U);
  head.Clear();
  EXPECT_EQ(head.large_bytes(), 0U);
}

TEST(MessageReaderTest, Messages_CutAnywhere_AreReadWhole) {
  const std::string bytes = Framed("one") + Framed("") + Framed("three", true);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    MessageReader reader;
    std::vector<std::string> messages;
    for (const std::string& part : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.Append(part);
      while (reader.Take(5) == Next::kMessage) messages.emplace_back(reader.message());
    }
    EXPECT_EQ(messages, (std::vector<std::string>{"one", "", "three"})) << cut;
    EXPECT_TRUE(reader.compressed());
    EXPECT_EQ(reader.pending(), 0U);
  }
}

TEST(MessageReaderTest, Message_OverTheLimit_IsDetectedBeforeItArrives) {
  MessageReader reader;
  reader.Append(Framed("123456").substr(0, 5));
  EXPECT_EQ(reader.Take(6), Next::kPartial);
  EXPECT_EQ(reader.expected(), 6U);
  EXPECT_EQ(reader.Take(5), Next::kTooLarge);
}

TEST(PercentEncodeTest, Bytes_AreEncodedAsGrpcSpecifies) {
  EXPECT_EQ(PercentEncode("plain ~text!"), "plain ~text!");
  EXPECT_EQ(PercentEncode("5% \n\xC3\xBC\x7F"), "5%25 %0A%C3%BC%7F");
}

TEST(RateGuardTest, Events_AreAllowedUpToTheBurstThenAtTheRate) {
  RateGuard guard(3, 2);
  SteadyTime now{};
  const auto allowed = [&](int events) {
    int count = 0;
    for (int i = 0; i < events; ++i) count += guard.Allow(now) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(allowed(10), 3);
  now += std::chrono::seconds(1);
  EXPECT_EQ(allowed(10), 2);
  now += std::chrono::seconds(100);
  EXPECT_EQ(allowed(10), 3);
  guard.Reset();
  EXPECT_EQ(allowed(10), 3);
}

}  // namespace
}  // namespace sluice::rpc::http2
