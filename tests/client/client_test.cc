// Answers, errors and deadlines of a client's calls.
#include "client/client.h"

#include <atomic>
#include <utility>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "client/grpc_status.h"
#include "tests/tools/fake_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::FakeServer;

std::unique_ptr<Client> ClientOf(const Address& address) {
  return Client::Create({.address = address}).value();
}

v1::CheckLimitRequest Request() {
  v1::CheckLimitRequest request;
  request.set_domain("shop");
  (*request.mutable_attributes())["user"] = "42";
  return request;
}

grpc::Status Allow(const v1::CheckLimitRequest&, v1::CheckLimitResponse& response) {
  response.set_decision(v1::DECISION_ALLOWED);
  return grpc::Status::OK;
}

TEST(Client, Check_RequestArrivesAndAnswerReturns) {
  FakeServer server([](const v1::CheckLimitRequest& request, v1::CheckLimitResponse& response) {
    response.set_decision(v1::DECISION_DENIED);
    response.set_request_id(request.domain() + "/" + request.attributes().at("user"));
    return grpc::Status::OK;
  });
  const auto client = ClientOf(server.address());
  const auto response = client->Check(Request(), seconds(10));
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->decision(), v1::DECISION_DENIED);
  EXPECT_EQ(response->request_id(), "shop/42");
  EXPECT_TRUE(client->connected());
}

TEST(Client, Check_ErrorOfServer_MapsCodeAndKeepsMessage) {
  constexpr std::pair<grpc::StatusCode, ErrorCode> kCodes[] = {
      {grpc::INVALID_ARGUMENT, ErrorCode::kInvalidArgument},
      {grpc::NOT_FOUND, ErrorCode::kNotFound},
      {grpc::PERMISSION_DENIED, ErrorCode::kPermissionDenied},
      {grpc::UNAUTHENTICATED, ErrorCode::kUnauthenticated},
      {grpc::RESOURCE_EXHAUSTED, ErrorCode::kResourceExhausted},
      {grpc::DEADLINE_EXCEEDED, ErrorCode::kDeadlineExceeded},
      {grpc::UNAVAILABLE, ErrorCode::kUnavailable},
      {grpc::UNIMPLEMENTED, ErrorCode::kUnimplemented},
      {grpc::INTERNAL, ErrorCode::kInternal},
      {grpc::DATA_LOSS, ErrorCode::kInternal},
  };
  std::atomic<grpc::StatusCode> code;
  FakeServer server([&](const auto&, auto&) { return grpc::Status(code, "because"); });
  const auto client = ClientOf(server.address());
  for (const auto& [raised, expected] : kCodes) {
    code = raised;
    const auto response = client->Check(Request(), seconds(10));
    ASSERT_FALSE(response);
    EXPECT_EQ(response.error(), (Error{expected, "because"})) << CodeName(expected);
    EXPECT_TRUE(client->connected());
  }
}

TEST(Client, Check_NobodyListens_IsUnavailableAndNotConnected) {
  Address address;
  address.unix_path = "/nonexistent/socket";
  const auto client = ClientOf(address);
  const auto response = client->Check(Request(), seconds(10));
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(client->connected());
}

TEST(Client, Check_ServerIsSilent_FailsWithDeadlineExceeded) {
  std::atomic<bool> over = false;
  FakeServer server([&](const auto&, auto&) {
    over.wait(false);
    return grpc::Status::OK;
  });
  const auto client = ClientOf(server.address());
  const auto response = client->Check(Request(), milliseconds(50));
  over = true;
  over.notify_all();
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::kDeadlineExceeded);
}

TEST(Client, RenewLease_ReturnsTheTtlOrNotFound) {
  FakeServer server(Allow, {.renew = [](const auto& request, auto& response) {
                      if (request.lease_id() != "a lease")
                        return grpc::Status(grpc::NOT_FOUND, "expired");
                      response.mutable_ttl()->set_seconds(2);
                      response.mutable_ttl()->set_nanos(500'000'001);
                      return grpc::Status::OK;
                    }});
  const auto client = ClientOf(server.address());
  const auto renewed = client->RenewLease("a lease", seconds(10));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(*renewed, Duration(2'500'001));
  const auto expired = client->RenewLease("another", seconds(10));
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error(), (Error{ErrorCode::kNotFound, "expired"}));
}

TEST(Client, ReleaseLease_ArrivesOrReturnsTheError) {
  FakeServer server(Allow, {.release = [](const auto& request) {
                      return request.lease_id() == "a lease"
                                 ? grpc::Status::OK
                                 : grpc::Status(grpc::INVALID_ARGUMENT, "lease_id");
                    }});
  const auto client = ClientOf(server.address());
  v1::ReleaseLeaseRequest release;
  release.set_lease_id("a lease");
  EXPECT_TRUE(client->ReleaseLease(release, seconds(10)));
  const auto refused = client->ReleaseLease({}, seconds(10));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), (Error{ErrorCode::kInvalidArgument, "lease_id"}));
}

TEST(Client, Token_IsSentAsBearerToken) {
  FakeServer server(Allow);
  const auto client = Client::Create({.address = server.address(), .token = "open-sesame"}).value();
  ASSERT_TRUE(client->Check(Request(), seconds(10)));
  EXPECT_EQ(server.authorization(), "Bearer open-sesame");
}

}  // namespace
}  // namespace sluice
