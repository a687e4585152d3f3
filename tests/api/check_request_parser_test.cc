// The parser of requests, against the generated one and by table.
#include "api/check_request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <map>
#include <string>
#include <vector>

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
  if (Below(random, 2) == 0) request.set_mode(static_cast<v1::Mode>(Below(random, 6)));
  if (Below(random, 3) == 0) {
    request.mutable_max_wait()->set_seconds(RandomNumber(random));
    request.mutable_max_wait()->set_nanos(static_cast<std::int32_t>(Below(random, 1'000'000'001)));
  }
  if (Below(random, 6) == 0) request.mutable_max_delay()->set_seconds(RandomNumber(random));
  if (Below(random, 2) == 0) request.set_request_id(RandomText(random));
  if (Below(random, 8) == 0) request.mutable_charged_at()->set_seconds(RandomNumber(random));
  return request;
}

// Fields that no schema knows, including groups.
std::string UnknownField(Random& random) {
  static const std::vector<std::string> kFields{
      "\x78\x05",                        // 15: varint
      std::string("\x79") + "12345678",  // 15: fixed64
      "\x7a\x03"
      "abc",                         // 15: bytes
      "\x7b\x08\x01\x7c",            // 15: group with a varint
      "\x7b\x7b\x7c\x7c",            // 15: nested groups
      std::string("\x7d") + "1234",  // 15: fixed32
      "\x08\x07",                    // domain, as a varint
      "\x1a\x01x",                   // cost, as bytes
  };
  return kFields[Below(random, kFields.size())];
}

// Damages `bytes` randomly, or not at all.
std::string Damage(std::string bytes, Random& random) {
  switch (Below(random, 6)) {
    case 0:
      bytes.resize(Below(random, bytes.size() + 1));
      break;
    case 1:
      if (!bytes.empty()) bytes[Below(random, bytes.size())] ^= char(1 << Below(random, 8));
      break;
    case 2:
      bytes.insert(Below(random, bytes.size() + 1), 1, static_cast<char>(random()));
      break;
    case 3:
      bytes += UnknownField(random);
      break;
    case 4:  // fields twice, the later ones count
      bytes += RandomRequest(random).SerializeAsString();
      break;
    default:
      break;
  }
  return bytes;
}

const google::protobuf::Duration& WaitOf(const v1::CheckLimitRequest& request) {
  return request.has_max_delay() ? request.max_delay() : request.max_wait();
}

bool HasPlace(const v1::CheckLimitRequest& request) {
  if (request.has_max_wait() && request.has_max_delay()) return false;
  const auto& wait = WaitOf(request);
  const bool wait_ok =
      wait.seconds() >= 0 && wait.nanos() >= 0 && wait.nanos() <= 999'999'999 &&
      (wait.seconds() < 365 * 86'400 || (wait.seconds() == 365 * 86'400 && wait.nanos() == 0));
  const auto& charged = request.charged_at();
  const bool charged_ok = charged.seconds() >= 0 && charged.seconds() <= 253'402'300'799 &&
                          charged.nanos() >= 0 && charged.nanos() <= 999'999'999;
  const bool mode_ok = request.mode() >= 0 && request.mode() <= 4;
  return mode_ok && wait_ok &&
         (!request.has_charged_at() || (request.mode() == v1::MODE_REFUND && charged_ok)) &&
         request.request_id().size() <= 255 && request.attributes_size() <= 64;
}

void ExpectSame(const v1::CheckLimitRequest& expected, const CheckRequest& parsed,
                std::string_view request_id) {
  EXPECT_EQ(expected.domain(), parsed.domain);
  EXPECT_EQ(expected.request_id(), request_id);
  std::map<std::string, std::string> attributes;
  for (const auto& it : parsed.attributes) attributes.emplace(it.name, it.value);
  EXPECT_EQ(parsed.attributes.size(), attributes.size()) << "a name twice";
  EXPECT_EQ((std::map<std::string, std::string>(expected.attributes().begin(),
                                                expected.attributes().end())),
            attributes);
  const std::uint64_t cost = expected.has_cost() ? expected.cost() : 1;
  EXPECT_EQ(cost, static_cast<std::uint64_t>(parsed.demand.cost));
  const int mode = cost == 0 ? v1::MODE_PEEK : expected.mode() == 0 ? 1 : expected.mode();
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

TEST(CheckRequestParser_RandomBytes, ReadsWhatTheGeneratedParserReads) {
  Random random(42);
  CheckRequest parsed;
  int accepted = 0;
  int malformed = 0;
  for (int i = 0; i < 200'000 && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = Damage(RandomRequest(random).SerializeAsString(), random);
    v1::CheckLimitRequest expected;
    const bool well_formed = expected.ParseFromString(bytes);
    std::string_view request_id;
    const auto result = ParseCheckRequest(bytes, parsed, request_id);
    SCOPED_TRACE(::testing::PrintToString(bytes));
    ASSERT_EQ(well_formed && HasPlace(expected), result.has_value());
    if (!well_formed) {
      ++malformed;
    } else if (result) {
      ++accepted;
      ExpectSame(expected, parsed, request_id);
    } else {
      EXPECT_EQ(ErrorCode::kInvalidArgument, result.error().code);
    }
  }
  EXPECT_GT(accepted, 50'000);
  EXPECT_GT(malformed, 10'000);
}

TEST(CheckRequestParser_DeepNesting, IsCutWhereProtobufCuts) {
  for (const std::size_t depth : {1, 99, 100, 101, 100'000}) {
    const std::string bytes = std::string(depth, '\x7b') + std::string(depth, '\x7c');
    CheckRequest parsed;
    std::string_view request_id;
    EXPECT_EQ(v1::CheckLimitRequest().ParseFromString(bytes),
              ParseCheckRequest(bytes, parsed, request_id).has_value())
        << depth;
  }
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
      {"Truncated", "\x0a\x05x", "not a valid protobuf message"},
  };
}

class CheckRequestParser_Refuses : public ::testing::TestWithParam<Refusal> {};

TEST_P(CheckRequestParser_Refuses, NamingTheField) {
  CheckRequest parsed;
  std::string_view request_id;
  const auto result = ParseCheckRequest(GetParam().bytes, parsed, request_id);
  ASSERT_FALSE(result);
  EXPECT_EQ(ErrorCode::kInvalidArgument, result.error().code);
  EXPECT_THAT(result.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Table, CheckRequestParser_Refuses, ::testing::ValuesIn(Refusals()),
                         [](const auto& test) { return test.param.name; });

TEST(CheckRequestParser_LongestWaitAllowed, IsRoundedDownToMicroseconds) {
  CheckRequest parsed;
  std::string_view request_id;
  ASSERT_TRUE(ParseCheckRequest(WithWait(365 * 86'400, 0), parsed, request_id));
  EXPECT_EQ(kMaxMaxWait, parsed.demand.max_wait);
  ASSERT_TRUE(ParseCheckRequest(WithWait(1, 1'999), parsed, request_id));
  EXPECT_EQ(std::chrono::microseconds(1'000'001), parsed.demand.max_wait);
}

TEST(CheckRequestParser_ManyAttributesOfOneName, AreOne) {
  std::string bytes;
  for (int i = 0; i < 10'000; ++i) {
    bytes += "\x12\x06\x0a\x01k\x12\x01" + std::string(1, static_cast<char>('a' + i % 26));
  }
  CheckRequest parsed;
  std::string_view request_id;
  ASSERT_TRUE(ParseCheckRequest(bytes, parsed, request_id));
  ASSERT_EQ(1U, parsed.attributes.size());
  EXPECT_EQ(std::string(1, 'a' + 9'999 % 26), parsed.attributes[0].value);
}

}  // namespace
}  // namespace sluice
