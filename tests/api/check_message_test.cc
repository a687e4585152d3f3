// Received bytes become checks, or are refused.
#include "api/check_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "api/received_message.h"
#include "tests/support/random.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using test::Below;
using test::Random;

std::string RandomText(Random& random) {
  static const std::vector<std::string> kPieces{"a", "user", "/boot/pay",  std::string(1, '\0'),
                                                "ü", "漢",   "\U0001F600", std::string(40, 'x')};
  std::string text;
  for (std::size_t n = Below(random, 4); n > 0; --n) text += kPieces[Below(random, kPieces.size())];
  return text;
}

std::int64_t RandomNumber(Random& random) {
  return static_cast<std::int64_t>(random() >> Below(random, 64)) *
         (Below(random, 8) == 0 ? -1 : 1);
}

v1::CheckLimitRequest RandomRequest(Random& random) {
  v1::CheckLimitRequest request;
  if (Below(random, 8) != 0) request.set_domain(RandomText(random));
  for (std::size_t n = Below(random, 6); n > 0; --n) {
    (*request.mutable_attributes())[RandomText(random)] = RandomText(random);
  }
  if (Below(random, 2) == 0) request.set_cost(static_cast<std::uint64_t>(RandomNumber(random)));
  for (std::size_t n = Below(random, 4) == 0 ? Below(random, 6) : 0; n > 0; --n) {
    (*request.mutable_amounts())[RandomText(random)] =
        static_cast<std::uint64_t>(RandomNumber(random));
  }
  if (Below(random, 2) == 0) request.set_mode(static_cast<v1::Mode>(Below(random, 6)));
  if (Below(random, 3) == 0) {
    request.mutable_max_wait()->set_seconds(RandomNumber(random));
    request.mutable_max_wait()->set_nanos(static_cast<std::int32_t>(Below(random, 1'000'000'001)));
  }
  if (Below(random, 6) == 0) request.mutable_max_delay()->set_seconds(RandomNumber(random));
  if (Below(random, 2) == 0) request.set_request_id(RandomText(random));
  if (Below(random, 8) == 0) request.mutable_charged_at()->set_seconds(RandomNumber(random));
  if (Below(random, 8) == 0) request.mutable_lease_ttl()->set_seconds(RandomNumber(random));
  return request;
}

const google::protobuf::Duration& WaitOf(const v1::CheckLimitRequest& request) {
  return request.has_max_delay() ? request.max_delay() : request.max_wait();
}

bool IsAllowed(const v1::CheckLimitRequest& request) {
  if (request.has_max_wait() && request.has_max_delay()) return false;
  const auto& wait = WaitOf(request);
  const bool wait_ok =
      wait.seconds() >= 0 && wait.nanos() >= 0 && wait.nanos() <= 999'999'999 &&
      (wait.seconds() < 365 * 86'400 || (wait.seconds() == 365 * 86'400 && wait.nanos() == 0));
  const auto& charged = request.charged_at();
  const bool charged_ok = charged.seconds() >= 0 && charged.seconds() <= 253'402'300'799 &&
                          charged.nanos() >= 0 && charged.nanos() <= 999'999'999;
  const bool mode_ok = request.mode() >= 0 && request.mode() <= 4;
  const bool consumes =
      request.mode() == v1::MODE_UNSPECIFIED || request.mode() == v1::MODE_CONSUME;
  const auto ttl = request.lease_ttl().seconds();
  const bool lease_ok = !request.has_lease_ttl() || (consumes && ttl >= 0 && ttl <= 365 * 86'400);
  return mode_ok && wait_ok && lease_ok &&
         (!request.has_charged_at() || (request.mode() == v1::MODE_REFUND && charged_ok)) &&
         request.request_id().size() <= 255 && request.attributes_size() <= 64;
}

void ExpectSame(const v1::CheckLimitRequest& expected, const CheckRequest& parsed,
                std::string_view request_id) {
  EXPECT_EQ(expected.domain(), parsed.domain);
  EXPECT_EQ(expected.request_id(), request_id);
  EXPECT_EQ(expected.has_lease_ttl(), parsed.lease_ttl.has_value());
  if (parsed.lease_ttl) {
    EXPECT_EQ(std::chrono::seconds(expected.lease_ttl().seconds()), *parsed.lease_ttl);
  }
  std::map<std::string, std::string> attributes;
  for (const auto& it : parsed.attributes) attributes.emplace(it.name, it.value);
  EXPECT_EQ(parsed.attributes.size(), attributes.size()) << "a name occurs twice";
  EXPECT_EQ((std::map<std::string, std::string>(expected.attributes().begin(),
                                                expected.attributes().end())),
            attributes);
  const std::uint64_t cost = expected.has_cost() ? expected.cost() : 1;
  EXPECT_EQ(cost, static_cast<std::uint64_t>(parsed.cost));
  std::map<std::string, std::uint64_t> amounts;
  for (const auto& it : parsed.amounts) amounts.emplace(it.name, it.value);
  EXPECT_EQ(parsed.amounts.size(), amounts.size()) << "a name occurs twice";
  EXPECT_EQ(
      (std::map<std::string, std::uint64_t>(expected.amounts().begin(), expected.amounts().end())),
      amounts);
  const bool takes_nothing = cost == 0 && std::all_of(amounts.begin(), amounts.end(),
                                                      [](auto& it) { return it.second == 0; });
  const int mode = takes_nothing ? v1::MODE_PEEK : expected.mode() == 0 ? 1 : expected.mode();
  EXPECT_EQ(mode, static_cast<int>(parsed.demand.mode));
  ASSERT_EQ(expected.has_max_wait() || expected.has_max_delay(),
            parsed.demand.max_wait.has_value());
  EXPECT_EQ(expected.has_max_delay(), parsed.demand.only_delays);
  ASSERT_EQ(expected.has_charged_at(), parsed.demand.charged_at.has_value());
  if (parsed.demand.charged_at) {
    EXPECT_EQ(expected.charged_at().seconds() * 1'000'000 + expected.charged_at().nanos() / 1000,
              parsed.demand.charged_at->time_since_epoch().count());
  }
  if (parsed.demand.max_wait) {
    EXPECT_EQ(WaitOf(expected).seconds() * 1'000'000 + WaitOf(expected).nanos() / 1000,
              parsed.demand.max_wait->count());
  }
}

TEST(CheckMessage_RandomRequests, BecomeChecks) {
  Random random(42);
  CheckMessage message;
  CheckRequest parsed;
  int accepted = 0;
  for (int i = 0; i < 20'000 && !::testing::Test::HasFailure(); ++i) {
    const v1::CheckLimitRequest request = RandomRequest(random);
    const auto result = message.Parse(request.SerializeAsString(), parsed);
    SCOPED_TRACE(request.ShortDebugString());
    ASSERT_EQ(IsAllowed(request), result.has_value());
    if (!result) continue;
    ++accepted;
    ExpectSame(request, parsed, message.request_id());
  }
  EXPECT_GT(accepted, 5'000);
}

std::string Mutated(Random& random, std::string bytes) {
  for (std::size_t n = 1 + Below(random, 3); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = Below(random, bytes.size());
    const auto byte = static_cast<char>(random());
    switch (Below(random, 4)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.insert(at, 1, byte);
        break;
      case 2:
        bytes.erase(at, 1);
        break;
      default:
        bytes.insert(at, bytes.substr(Below(random, bytes.size()), Below(random, 9)));
    }
  }
  return bytes;
}

// CheckMessage and protobuf's generated parser find the same bytes malformed. The exception is tags
// of more than five bytes: CodedInputStream truncates them.
TEST(CheckMessage_MutatedBytes, AreReadAsTheGeneratedParserReadsThem) {
  SendProtobufLogToOurs();
  Random random(43);
  CheckMessage message;
  CheckRequest parsed;
  int malformed = 0, truncated = 0, accepted = 0;
  for (int i = 0; i < 100'000 && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = Mutated(random, RandomRequest(random).SerializeAsString());
    SCOPED_TRACE(::testing::PrintToString(bytes));
    v1::CheckLimitRequest request;
    const bool valid = request.ParseFromString(bytes);
    const auto result = message.Parse(bytes, parsed);
    const bool read = result || result.error().message.find(" valid ") == std::string::npos;
    if (!valid) ++(read ? truncated : malformed);
    if (!valid) continue;
    ASSERT_TRUE(read) << result.error().message;
    if (!result) continue;
    ++accepted;
    ExpectSame(request, parsed, message.request_id());
  }
  EXPECT_GT(malformed, 10'000);
  EXPECT_LT(truncated, malformed / 100);
  EXPECT_GT(accepted, 3'000);
}

struct Refusal {
  std::string name;
  std::string bytes;
  std::string message;
};

std::string WithWait(std::int64_t seconds, std::int32_t nanos) {
  v1::CheckLimitRequest request;
  request.mutable_max_wait()->set_seconds(seconds);
  request.mutable_max_wait()->set_nanos(nanos);
  return request.SerializeAsString();
}

std::string WithAttributes(int count) {
  v1::CheckLimitRequest request;
  for (int i = 0; i < count; ++i) (*request.mutable_attributes())[std::to_string(i)] = "";
  return request.SerializeAsString();
}

std::string WithAmounts(int count) {
  v1::CheckLimitRequest request;
  for (int i = 0; i < count; ++i) (*request.mutable_amounts())[std::to_string(i)] = 1;
  return request.SerializeAsString();
}

std::string Repeated(std::string_view bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

std::vector<Refusal> Refusals() {
  v1::CheckLimitRequest long_id;
  long_id.set_request_id(std::string(256, 'x'));
  v1::CheckLimitRequest charged_at;
  charged_at.mutable_charged_at();
  v1::CheckLimitRequest charged_before_1970;
  charged_before_1970.set_mode(v1::MODE_REFUND);
  charged_before_1970.mutable_charged_at()->set_seconds(-1);
  v1::CheckLimitRequest two_waits;
  two_waits.mutable_max_wait();
  two_waits.mutable_max_delay();
  v1::CheckLimitRequest negative_delay;
  negative_delay.mutable_max_delay()->set_seconds(-1);
  return {
      {"BadDomain", "\x0a\x01\xff", "domain: not valid UTF-8"},
      {"BadAttributeName", "\x12\x03\x0a\x01\xff", "attributes: not valid UTF-8"},
      {"BadAttributeValue", "\x12\x03\x12\x01\xff", "attributes: not valid UTF-8"},
      {"BadRequestId", "\x32\x01\xff", "request_id: not valid UTF-8"},
      {"LongRequestId", long_id.SerializeAsString(), "request_id: 256 bytes"},
      {"UnknownMode", "\x20\x07", "mode: 7"},
      {"NegativeMode", "\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "mode: -1"},
      {"NegativeWait", WithWait(-1, 0), "max_wait: -1 s"},
      {"NegativeNanos", WithWait(0, -1), "max_wait: 0 s and -1 ns"},
      {"TooManyNanos", WithWait(0, 1'000'000'000), "max_wait: 0 s and 1000000000 ns"},
      {"LongWait", WithWait(365 * 86'400, 1), "max_wait: 31536000 s and 1 ns"},
      {"LongestWait", WithWait(INT64_MAX, 0), "max_wait: 9223372036854775807 s"},
      {"WaitAndDelay", two_waits.SerializeAsString(), "max_delay: not allowed with max_wait"},
      {"NegativeDelay", negative_delay.SerializeAsString(), "max_delay: -1 s"},
      {"ChargedAtWithoutRefund", charged_at.SerializeAsString(), "charged_at: "},
      {"ChargedBefore1970", charged_before_1970.SerializeAsString(), "charged_at: -1 s"},
      {"ManyAttributes", WithAttributes(65), "attributes: more than 64"},
      {"ManyAmounts", WithAmounts(17), "amounts: more than 16"},
      {"BadAmountName", "\x4a\x03\x0a\x01\xff", "amounts: not valid UTF-8"},
      {"Truncated", "\x0a\x05x", "not a valid protobuf message"},
      {"ManyFields", Repeated("\x0a\x01x", 4097), "at most 4096 fields"},
      {"ManyEmptyAttributes", Repeated(std::string("\x12\0", 2), 4097), "at most 4096 fields"},
      {"ManyFieldsInEntries", Repeated("\x12\x06\x0a\x01k\x12\x01v", 1366), "at most 4096 fields"},
  };
}

class CheckMessage_Refuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(CheckMessage_Refuses, WithAnErrorThatSaysWhatIsWrong) {
  CheckMessage message;
  CheckRequest parsed;
  const auto result = message.Parse(GetParam().bytes, parsed);
  ASSERT_FALSE(result);
  EXPECT_EQ(ErrorCode::kInvalidArgument, result.error().code);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Table, CheckMessage_Refuses, ::testing::ValuesIn(Refusals()),
                         [](const auto& test) { return test.param.name; });

TEST(CheckMessage_Refused, KeepsItsRequestId) {
  struct Row {
    std::string bytes;
    std::string request_id;
  };
  const std::vector<Row> rows = {
      {"\x32\x01i\x0a\x05x", "i"},             // truncated
      {"\x0a\x01\xff\x32\x01i", "i"},          // after a domain that is not UTF-8
      {"\x32\x01i\x20\x07", "i"},              // an unknown mode
      {"\x0a\x01\xff\x32\x01\xff", ""},        // the request_id is not UTF-8 either
      {"\x0a\x05x", ""},                       // no request_id
      {"\x0a\x01\xff\x30\x01\x32\x01i", "i"},  // field 6 also occurs as a number
  };
  CheckMessage message;
  CheckRequest parsed;
  for (const auto& [bytes, request_id] : rows) {
    EXPECT_FALSE(message.Parse(bytes, parsed));
    EXPECT_EQ(request_id, message.request_id()) << ::testing::PrintToString(bytes);
  }
}

TEST(CheckMessage_MaxWait, IsRoundedDownToMicroseconds) {
  CheckMessage message;
  CheckRequest parsed;
  ASSERT_TRUE(message.Parse(WithWait(365 * 86'400, 0), parsed));
  EXPECT_EQ(kMaxMaxWait, parsed.demand.max_wait);
  ASSERT_TRUE(message.Parse(WithWait(1, 1'999), parsed));
  EXPECT_EQ(std::chrono::microseconds(1'000'001), parsed.demand.max_wait);
}

// A thread parses a check while earlier checks still wait for their answers.
TEST(CheckMessage_TwoOnOneThread, EachKeepsItsTexts) {
  CheckMessage messages[2];
  CheckRequest parsed[2];
  for (int i = 0; i < 2; ++i) {
    v1::CheckLimitRequest request;
    request.set_domain(i == 0 ? "first" : "other");
    (*request.mutable_attributes())["user"] = i == 0 ? "ann" : "bob";
    request.set_request_id(i == 0 ? "1" : "2");
    (*request.mutable_amounts())[i == 0 ? "tokens" : "images"] = 3;
    ASSERT_TRUE(messages[i].Parse(request.SerializeAsString(), parsed[i]));
  }
  EXPECT_EQ(parsed[0].domain, "first");
  EXPECT_EQ(parsed[0].attributes[0].name, "user");
  EXPECT_EQ(parsed[0].attributes[0].value, "ann");
  EXPECT_EQ(parsed[0].amounts[0].name, "tokens");
  EXPECT_EQ(messages[0].request_id(), "1");
  EXPECT_EQ(messages[1].request_id(), "2");
}

TEST(CheckMessage_ManyAttributesOfOneName, TheLastOneIsUsed) {
  std::string bytes;
  for (int i = 0; i < 1'000; ++i) {
    bytes += "\x12\x06\x0a\x01k\x12\x01" + std::string(1, static_cast<char>('a' + i % 26));
  }
  CheckMessage message;
  CheckRequest parsed;
  ASSERT_TRUE(message.Parse(bytes, parsed));
  ASSERT_EQ(1U, parsed.attributes.size());
  EXPECT_EQ(std::string(1, 'a' + 999 % 26), parsed.attributes[0].value);
}

TEST(ReceivedMessage_OfTooManyFields, IsRefused) {
  const auto parsed = [](std::string_view entry, int times) {
    v1::SettleLeaseRequest message;
    return ParseMessage(Repeated(entry, times), message);
  };
  const std::string amount = "\x1a\x05\x0a\x01k\x10\x07";  // 3 fields: the entry, its key and value
  EXPECT_TRUE(parsed(amount, 1365));
  EXPECT_FALSE(parsed(amount, 1366));
  const std::string unknown = "\x9b\x06\x9c\x06";  // an empty group
  EXPECT_TRUE(parsed(unknown, 1024)) << "in messages of up to 4 KiB, fields are not counted";
  EXPECT_FALSE(parsed(unknown, 1025));
}

TEST(CheckMessage_AmountTwice, TheLastOneIsUsed) {
  CheckMessage message;
  CheckRequest parsed;
  const std::string zero_cost = "\x18" + std::string(1, '\0');
  ASSERT_TRUE(
      message.Parse(zero_cost + "\x4a\x05\x0a\x01k\x10\x07" + "\x4a\x05\x0a\x01k\x10\x05", parsed));
  ASSERT_EQ(1U, parsed.amounts.size());
  EXPECT_EQ(5, parsed.amounts[0].value);
  EXPECT_EQ(Mode::kConsume, parsed.demand.mode);
  ASSERT_TRUE(message.Parse(WithAmounts(16), parsed))
      << "the amounts of the earlier message are gone";
  EXPECT_EQ(16U, parsed.amounts.size());
}

}  // namespace
}  // namespace sluice
