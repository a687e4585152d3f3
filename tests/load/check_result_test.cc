// The scan of answers, compared with the generated classes.
#include "load/check_result.h"

#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/random.h"

namespace sluice::load {
namespace {

using test::Below;
using test::Random;

v1::CheckLimitResponse RandomResponse(Random& random) {
  v1::CheckLimitResponse response;
  response.set_decision(static_cast<v1::Decision>(Below(random, 4)));
  response.set_source(static_cast<v1::Source>(Below(random, 8)));
  if (Below(random, 2) == 0) response.mutable_wait()->set_nanos(5);
  if (Below(random, 2) == 0) response.mutable_decided_at()->set_seconds(1'700'000'000);
  for (std::size_t n = Below(random, 3); n > 0; --n) {
    v1::LimitStatus& limit = *response.add_limits();
    limit.set_rule("per-user");
    limit.set_source(static_cast<v1::Source>(Below(random, 6)));  // often not the decision's source
    limit.set_remaining(random());
    limit.mutable_reset_after()->set_seconds(3);
  }
  if (Below(random, 2) == 0) response.set_request_id(std::to_string(Below(random, 1'000'000)));
  return response;
}

v1::CheckLimitsResponse RandomResults(Random& random) {
  v1::CheckLimitsResponse results;
  for (std::size_t n = Below(random, 4); n > 0; --n) {
    v1::CheckLimitResult& result = *results.add_results();
    if (Below(random, 3) > 0) {
      *result.mutable_response() = RandomResponse(random);
    } else {
      result.mutable_error()->set_code(static_cast<int>(Below(random, 20)) - 2);
      result.mutable_error()->set_message("the store is down");
      result.mutable_error()->set_request_id("1000042");
    }
  }
  return results;
}

// The top-level fields of a message, except the repeated ones, serialized in random order. Parsers
// must accept any order.
std::string Shuffled(const google::protobuf::Message& message, Random& random) {
  std::vector<std::string> fields;
  std::vector<const google::protobuf::FieldDescriptor*> present;
  message.GetReflection()->ListFields(message, &present);
  for (const auto* field : present) {
    if (field->is_repeated()) continue;
    std::unique_ptr<google::protobuf::Message> one(message.New());
    one->CopyFrom(message);
    for (const auto* other : present) {
      if (other != field) one->GetReflection()->ClearField(one.get(), other);
    }
    fields.push_back(one->SerializeAsString());
  }
  std::shuffle(fields.begin(), fields.end(), random);
  std::string bytes;
  for (const std::string& field : fields) bytes += field;
  return bytes;
}

// Damages `bytes` in one random way, or not at all. `more` is another message of the same kind.
std::string Damage(std::string bytes, const std::string& more, Random& random) {
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
      bytes += "\x7b\x08\x01\x7c";  // an unknown group
      break;
    case 4:
      bytes += more;  // fields occur twice; the later ones count
      break;
    default:
      break;
  }
  return bytes;
}

void ExpectSame(const v1::CheckLimitResponse& expected, const CheckResult& result) {
  EXPECT_FALSE(result.is_error);
  EXPECT_EQ(expected.decision(), result.decision);
  EXPECT_EQ(expected.source(), result.source);
  EXPECT_EQ(expected.request_id(), result.request_id);
}

void ExpectSame(const v1::CheckLimitResult& expected, const CheckResult& result) {
  if (!expected.has_error()) return ExpectSame(expected.response(), result);
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(expected.error().code(), result.code);
  EXPECT_EQ(expected.error().message(), result.message);
  EXPECT_EQ(expected.error().request_id(), result.request_id);
}

TEST(ReadResponse, DamagedBytes_AreReadAsTheGeneratedParserReadsThem) {
  Random random(42);
  int read = 0;
  int refused = 0;
  for (int i = 0; i < 100'000 && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = Damage(RandomResponse(random).SerializeAsString(),
                                     RandomResponse(random).SerializeAsString(), random);
    SCOPED_TRACE(::testing::PrintToString(bytes));
    v1::CheckLimitResponse expected;
    CheckResult result;
    if (!ReadResponse(bytes, result)) {
      ++refused;
      EXPECT_FALSE(expected.ParseFromString(bytes));
    } else if (expected.ParseFromString(bytes)) {  // may fail in a field that ReadResponse skips
      ++read;
      ExpectSame(expected, result);
    }
  }
  EXPECT_GT(read, 50'000);
  EXPECT_GT(refused, 5'000);
}

TEST(ReadResponse, FieldsInAnyOrder_AreRead) {
  Random random(43);
  for (int i = 0; i < 10'000; ++i) {
    v1::CheckLimitResponse expected;
    const std::string bytes = Shuffled(RandomResponse(random), random);
    ASSERT_TRUE(expected.ParseFromString(bytes));
    CheckResult result;
    ASSERT_TRUE(ReadResponse(bytes, result));
    ExpectSame(expected, result);
  }
}

TEST(ReadResults, DamagedBytes_AreReadAsTheGeneratedParserReadsThem) {
  Random random(44);
  std::vector<CheckResult> results;
  int read = 0;
  int refused = 0;
  for (int i = 0; i < 100'000 && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = Damage(RandomResults(random).SerializeAsString(),
                                     RandomResults(random).SerializeAsString(), random);
    SCOPED_TRACE(::testing::PrintToString(bytes));
    v1::CheckLimitsResponse expected;
    if (!ReadResults(bytes, results)) {
      ++refused;
      EXPECT_FALSE(expected.ParseFromString(bytes));
    } else if (expected.ParseFromString(bytes)) {
      ++read;
      ASSERT_EQ(expected.results_size(), static_cast<int>(results.size()));
      for (int k = 0; k < expected.results_size(); ++k) {
        ExpectSame(expected.results(k), results[static_cast<std::size_t>(k)]);
      }
    }
  }
  EXPECT_GT(read, 50'000);
  EXPECT_GT(refused, 5'000);
}

TEST(ReadResults, CutAnywhere_BothParsersAgree) {
  Random random(45);
  std::vector<CheckResult> results;
  for (int i = 0; i < 300; ++i) {
    const std::string bytes = RandomResults(random).SerializeAsString();
    for (std::size_t size = 0; size <= bytes.size(); ++size) {
      const std::string cut = bytes.substr(0, size);
      EXPECT_EQ(ReadResults(cut, results), v1::CheckLimitsResponse().ParseFromString(cut));
    }
    // The same damage, but within a result whose size is correct.
    const std::string response = RandomResponse(random).SerializeAsString();
    for (std::size_t size = 0; size <= std::min<std::size_t>(response.size(), 120); ++size) {
      const std::string cut = response.substr(0, size);
      const std::string result = std::string{'\x0a', static_cast<char>(size)} + cut;
      const std::string framed = std::string{'\x0a', static_cast<char>(result.size())} + result;
      EXPECT_EQ(ReadResults(framed, results), v1::CheckLimitResponse().ParseFromString(cut));
    }
  }
}

// Puts `first` and then `second` into one CheckLimitResult. Both parsers must read the same.
void ExpectMerged(const v1::CheckLimitResult& first, const v1::CheckLimitResult& second) {
  const std::string both = first.SerializeAsString() + second.SerializeAsString();
  v1::CheckLimitResult expected;
  ASSERT_TRUE(expected.ParseFromString(both));
  ASSERT_LT(both.size(), 128u);
  std::vector<CheckResult> results;
  const std::string bytes = std::string{'\x0a', static_cast<char>(both.size())} + both;
  ASSERT_TRUE(ReadResults(bytes, results));
  ASSERT_EQ(results.size(), 1u);
  ExpectSame(expected, results[0]);
}

TEST(ReadResults, ResponseAndErrorInOneResult_AreReadAsMerged_TheLastCounts) {
  v1::CheckLimitResult allowed;
  allowed.mutable_response()->set_decision(v1::DECISION_ALLOWED);
  allowed.mutable_response()->set_request_id("1000042");
  v1::CheckLimitResult from_store;
  from_store.mutable_response()->set_source(v1::SOURCE_STORE);
  v1::CheckLimitResult error;
  error.mutable_error()->set_code(14);
  error.mutable_error()->set_message("the store is down");
  ExpectMerged(allowed, from_store);
  ExpectMerged(allowed, error);
  ExpectMerged(error, from_store);
}

}  // namespace
}  // namespace sluice::load
