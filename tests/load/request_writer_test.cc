// Written requests, parsed by the generated classes.
#include "load/request_writer.h"

#include <gtest/gtest.h>
#include <sluice/v1/rate_limiter.pb.h>

#include <set>
#include <string>

namespace sluice::load {
namespace {

v1::CheckLimitRequest Request() {
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  (*request.mutable_attributes())["endpoint"] = "/boot/pay";
  return request;
}

Plan PlanOf(Rpc rpc, std::uint32_t checks) {
  return {.rpc = rpc,
          .checks = checks,
          .request = Request().SerializeAsString(),
          .key_name = "customer",
          .keys = 50};
}

// Returns the only message in `framed`, and checks its size.
template <typename Message>
Message Unframed(const std::string& framed) {
  EXPECT_EQ(framed.at(0), '\0');
  std::size_t size = 0;
  for (int i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(framed.at(i));
  EXPECT_EQ(size, framed.size() - 5);
  Message message;
  EXPECT_TRUE(message.ParseFromString(framed.substr(5)));
  return message;
}

// Checks that `request` is Request() with a key. Returns the key.
int KeyOf(v1::CheckLimitRequest request, const std::string& request_id = "") {
  EXPECT_EQ(request.domain(), "shop");
  EXPECT_EQ(request.request_id(), request_id);
  EXPECT_EQ(request.attributes_size(), 2);
  EXPECT_EQ(request.attributes().at("endpoint"), "/boot/pay");
  const int key = std::stoi(request.attributes().at("customer"));
  EXPECT_GE(key, 1'000'000);
  EXPECT_LT(key, 1'000'050);
  return key;
}

TEST(RequestWriter, Unary_WritesOneRequestWithAKey) {
  RequestWriter writer(PlanOf(Rpc::kUnary, 1), 1);
  std::set<int> keys;
  for (int i = 0; i < 1000; ++i) {
    std::string out;
    writer.Append(7, out);
    keys.insert(KeyOf(Unframed<v1::CheckLimitRequest>(out)));
  }
  EXPECT_EQ(keys.size(), 50u);
  EXPECT_EQ(*keys.begin(), 1'000'000);
  EXPECT_EQ(*keys.rbegin(), 1'000'049);
}

TEST(RequestWriter, Batch_KeyIsDrawnForEachCheck) {
  RequestWriter writer(PlanOf(Rpc::kBatch, 1000), 1);
  std::string out;
  writer.Append(7, out);
  const auto batch = Unframed<v1::CheckLimitsRequest>(out);
  ASSERT_EQ(batch.checks_size(), 1000);
  std::set<int> keys;
  for (const auto& check : batch.checks()) keys.insert(KeyOf(check));
  EXPECT_EQ(keys.size(), 50u);
}

TEST(RequestWriter, Stream_AllChecksHaveTheMessagesId) {
  RequestWriter writer(PlanOf(Rpc::kStream, 3), 1);
  for (const std::uint32_t id : {0U, 42U, kMaxInFlight - 1}) {
    std::string out;
    writer.Append(id, out);
    const auto frame = Unframed<v1::CheckLimitsRequest>(out);
    ASSERT_EQ(frame.checks_size(), 3);
    for (const auto& check : frame.checks()) {
      KeyOf(check, std::to_string(1'000'000 + id));
      EXPECT_EQ(ParseRequestId(check.request_id()), id);
    }
  }
}

TEST(RequestWriter, LongAttributes_AreWrittenInFull) {
  Plan plan = PlanOf(Rpc::kBatch, 2);
  plan.key_name = std::string(255, 'k');
  auto request = Request();
  (*request.mutable_attributes())["endpoint"] = std::string(5000, 'e');
  plan.request = request.SerializeAsString();
  RequestWriter writer(plan, 1);
  std::string out = "before";
  writer.Append(0, out);
  const auto batch = Unframed<v1::CheckLimitsRequest>(out.substr(6));
  ASSERT_EQ(batch.checks_size(), 2);
  for (const auto& check : batch.checks()) {
    EXPECT_EQ(check.attributes().at("endpoint").size(), 5000u);
    EXPECT_EQ(check.attributes().at(plan.key_name).size(), 7u);
  }
}

TEST(ParseRequestId, ForeignId_IsRejected) {
  for (const char* id :
       {"", "x", "100000", "10000000", "0999999", "2000000", "+100000", "01000005", "1e00000"}) {
    EXPECT_EQ(ParseRequestId(id), kMaxInFlight) << id;
  }
}

}  // namespace
}  // namespace sluice::load
