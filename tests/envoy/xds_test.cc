// The xDS client for rules, tested with a control plane in this process, which uses gRPC's own
// server.
#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "envoy/rules/rules_loader.h"
#include "envoy/service/discovery/v3/ads.grpc.pb.h"
#include "envoy/xds/xds_client.h"
#include "ratelimit/config/ratelimit/v3/rls_conf.pb.h"
#include "tests/support/captured_log.h"
#include "tests/support/wait_until.h"

namespace sluice::envoy {
namespace {

using ::envoy::service::discovery::v3::AggregatedDiscoveryService;
using ::envoy::service::discovery::v3::DiscoveryRequest;
using ::envoy::service::discovery::v3::DiscoveryResponse;
using ::ratelimit::config::ratelimit::v3::RateLimitConfig;
using std::chrono::milliseconds;
using test::WaitUntil;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::chrono::seconds kTimeout(10);

RateLimitConfig ConfigOf(const std::string& domain, std::uint32_t requests,
                         const std::string& name = "") {
  RateLimitConfig config;
  config.set_name(name);
  config.set_domain(domain);
  auto& descriptor = *config.add_descriptors();
  descriptor.set_key("user");
  descriptor.mutable_rate_limit()->set_requests_per_unit(requests);
  descriptor.mutable_rate_limit()->set_unit(::ratelimit::config::ratelimit::v3::MINUTE);
  return config;
}

DiscoveryResponse ResponseOf(const std::string& version, const std::vector<RateLimitConfig>& set) {
  DiscoveryResponse response;
  response.set_version_info(version);
  response.set_type_url(kRulesType);
  for (const RateLimitConfig& config : set) {
    auto& resource = *response.add_resources();
    resource.set_type_url(kRulesType);
    resource.set_value(config.SerializeAsString());
  }
  return response;
}

// Sends the responses that the test passes to Send, and records the client's requests.
class ControlPlane final : public AggregatedDiscoveryService::Service {
 public:
  explicit ControlPlane(int port = 0) { Start(port); }
  ~ControlPlane() override { Stop(); }

  void Start(int port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    BreakStream();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }

  void Send(DiscoveryResponse response) {
    const MutexLock lock(mutex_);
    response.set_nonce("nonce-" + std::to_string(++nonce_));
    stream_->Write(response);
  }

  void BreakStream() {
    const MutexLock lock(mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }

  // Waits for the next request of the client.
  DiscoveryRequest NextRequest() {
    DiscoveryRequest request;
    const bool received = WaitUntil(kTimeout, [&] {
      const MutexLock lock(mutex_);
      if (requests_.empty()) return false;
      request = requests_.front();
      requests_.pop_front();
      return true;
    });
    EXPECT_TRUE(received) << "no request";
    return request;
  }

  std::string HeaderOf(const std::string& name) {
    const MutexLock lock(mutex_);
    const auto found = context_->client_metadata().find(name);
    if (found == context_->client_metadata().end()) return "";
    return {found->second.data(), found->second.size()};
  }

 private:
  grpc::Status StreamAggregatedResources(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<DiscoveryResponse, DiscoveryRequest>* stream) override {
    {
      const MutexLock lock(mutex_);
      stream_ = stream;
      context_ = context;
    }
    DiscoveryRequest request;
    while (stream->Read(&request)) {
      const MutexLock lock(mutex_);
      requests_.push_back(request);
    }
    const MutexLock lock(mutex_);
    stream_ = nullptr;
    context_ = nullptr;
    return grpc::Status::OK;
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  grpc::ServerReaderWriter<DiscoveryResponse, DiscoveryRequest>* stream_ = nullptr;
  grpc::ServerContext* context_ = nullptr;
  std::deque<DiscoveryRequest> requests_;
  int nonce_ = 0;
};

// Takes sets of rules as the server does: parses each set, and reports its mistakes to the client.
class Taker {
 public:
  XdsClient::Take take() {
    return [this](RuleResources set, const XdsClient::Done& done) {
      const LoadedTrees loaded = ParseRules({}, false, set.documents);
      std::vector<std::string> mistakes;
      for (const Diagnostic& error : loaded.errors) mistakes.push_back(error.ToString());
      {
        const MutexLock lock(mutex_);
        ++taken_;
        if (hold_) held_ = done;
        if (hold_) return;
        if (loaded.ok()) trees_ = loaded.trees;
      }
      done(mistakes);
    };
  }

  void Hold() {
    const MutexLock lock(mutex_);
    hold_ = true;
  }
  XdsClient::Done Release() {
    const MutexLock lock(mutex_);
    hold_ = false;
    return std::exchange(held_, nullptr);
  }
  std::vector<RuleTree> trees() {
    const MutexLock lock(mutex_);
    return trees_;
  }
  int taken() {
    const MutexLock lock(mutex_);
    return taken_;
  }

 private:
  Mutex mutex_;
  bool hold_ = false;
  XdsClient::Done held_;
  std::vector<RuleTree> trees_;
  int taken_ = 0;
};

class XdsTest : public testing::Test {
 protected:
  XdsSettings SettingsFor(const std::string& server) {
    return {.server = server,
            .node_id = "envoy-ratelimit",
            .node_metadata = {{"zone", "a=b"}},
            .headers = {{"x-team", "edge"}},
            .first_pause = milliseconds(20),
            .longest_pause = milliseconds(80),
            .max_message = std::size_t{1} << 20};
  }
  void Start() { client_.emplace(SettingsFor(plane_.address()), taker_.take()); }

  test::CapturedLog log_;
  Taker taker_;
  ControlPlane plane_;
  std::optional<XdsClient> client_;
};

TEST_F(XdsTest, FirstRequest_NamesTheNodeAndHasNoVersion) {
  Start();
  const DiscoveryRequest first = plane_.NextRequest();
  EXPECT_EQ(first.type_url(), kRulesType);
  EXPECT_EQ(first.node().id(), "envoy-ratelimit");
  EXPECT_EQ(first.node().metadata().fields().at("zone").string_value(), "a=b");
  EXPECT_EQ(first.version_info(), "");
  EXPECT_EQ(first.response_nonce(), "");
  EXPECT_FALSE(first.has_error_detail());
  EXPECT_EQ(plane_.HeaderOf("x-team"), "edge");
}

TEST_F(XdsTest, GoodSet_IsTakenAndAcknowledged) {
  Start();
  plane_.NextRequest();
  plane_.Send(ResponseOf("7", {ConfigOf("shop", 5, "eg/shop"), ConfigOf("pay", 9)}));
  const DiscoveryRequest answer = plane_.NextRequest();
  EXPECT_EQ(answer.version_info(), "7");
  EXPECT_EQ(answer.response_nonce(), "nonce-1");
  EXPECT_FALSE(answer.has_error_detail());
  const auto trees = taker_.trees();
  ASSERT_EQ(trees.size(), 2U);
  EXPECT_EQ(trees[0].domain, "shop");
  ASSERT_EQ(trees[0].descriptors.size(), 1U);
  EXPECT_EQ(trees[0].descriptors[0].key, "user");
  EXPECT_EQ(trees[0].descriptors[0].rate_limit->requests_per_unit, 5U);
  EXPECT_EQ(trees[0].descriptors[0].rate_limit->unit, Unit::kMinute);
  const XdsStatus status = client_->status();
  EXPECT_TRUE(status.connected);
  EXPECT_EQ(status.version, "7");
  EXPECT_EQ(status.resources, 2U);
}

// Versions are opaque: a control plane that restarts may count from the beginning again.
TEST_F(XdsTest, LowerVersionWithEmptySet_IsTaken) {
  Start();
  plane_.NextRequest();
  plane_.Send(ResponseOf("7", {ConfigOf("shop", 5)}));
  plane_.NextRequest();
  plane_.Send(ResponseOf("1", {}));
  EXPECT_EQ(plane_.NextRequest().version_info(), "1");
  EXPECT_THAT(taker_.trees(), IsEmpty());
}

TEST_F(XdsTest, BadSet_RefusalHasEveryMistakeAndTheVersionInForce) {
  Start();
  plane_.NextRequest();
  plane_.Send(ResponseOf("1", {ConfigOf("shop", 5)}));
  plane_.NextRequest();
  RateLimitConfig bad = ConfigOf("shop", 6, "eg/bad");
  bad.mutable_descriptors(0)->mutable_rate_limit()->clear_unit();
  *bad.add_descriptors() = bad.descriptors(0);
  bad.mutable_descriptors(1)->mutable_rate_limit()->set_unlimited(true);
  RateLimitConfig nameless;
  auto response = ResponseOf("2", {bad, nameless});
  plane_.Send(response);
  const DiscoveryRequest answer = plane_.NextRequest();
  EXPECT_EQ(answer.version_info(), "1");
  EXPECT_EQ(answer.response_nonce(), "nonce-2");
  EXPECT_EQ(answer.error_detail().code(), grpc::StatusCode::INVALID_ARGUMENT);
  const std::string units = "are second, minute, hour, day, month, year, week";
  EXPECT_EQ(answer.error_detail().message(),
            "resources[0] \"eg/bad\": descriptors[0].rate_limit.unit: is missing; allowed " +
                units +
                "\nresources[0] \"eg/bad\": descriptors[1]: found the key \"user\" with the value "
                "\"\", as at descriptors[0]; allowed only once"
                "\nresources[1]: domain: is missing; allowed is a name of 1 to 255 bytes");
  ASSERT_EQ(taker_.trees().size(), 1U);
  EXPECT_EQ(taker_.trees()[0].descriptors[0].rate_limit->requests_per_unit, 5U);
  EXPECT_THAT(client_->status().last_refusal, StartsWith("version 2: resources[0]"));
  EXPECT_THAT(client_->status().last_refusal, EndsWith("(and 2 more)"));
}

TEST_F(XdsTest, ResourceMalformedOrOfAnotherType_IsRefused) {
  Start();
  plane_.NextRequest();
  auto response = ResponseOf("1", {ConfigOf("shop", 5), ConfigOf("pay", 5)});
  response.mutable_resources(0)->set_type_url("type.googleapis.com/other");
  response.mutable_resources(1)->set_value("\x0a\xff");
  plane_.Send(response);
  const std::string message = plane_.NextRequest().error_detail().message();
  EXPECT_THAT(message, HasSubstr("resources[0]: found a type.googleapis.com/other"));
  EXPECT_THAT(message, HasSubstr("resources[1]"));
  EXPECT_EQ(taker_.taken(), 0);
}

// A control plane may answer each refusal by sending the same set again immediately.
TEST_F(XdsTest, SameBadSetAgain_IsRefusedWithoutBeingCompiled) {
  Start();
  plane_.NextRequest();
  for (int i = 0; i < 5; ++i) {
    plane_.Send(ResponseOf(std::to_string(i), {ConfigOf("", 5)}));
    EXPECT_THAT(plane_.NextRequest().error_detail().message(), HasSubstr("domain: is missing"));
  }
  EXPECT_EQ(taker_.taken(), 1);
  plane_.Send(ResponseOf("5", {ConfigOf("shop", 5)}));
  EXPECT_EQ(plane_.NextRequest().version_info(), "5");
  EXPECT_EQ(client_->status().last_refusal, "");
  EXPECT_EQ(client_->status().refused, 5U);
}

// The fingerprint must be equal on all servers, even if they get the resources in different orders.
TEST(ResourceSetId, Fingerprint_DependsOnResources_NotOnTheirOrderOrVersion) {
  const auto of = [](const std::vector<RateLimitConfig>& configs) {
    return IdOf(ResponseOf("1", configs)).fingerprint;
  };
  const RateLimitConfig one = ConfigOf("shop", 5);
  const RateLimitConfig two = ConfigOf("pay", 9);
  EXPECT_EQ(of({one, two}), of({two, one}));
  EXPECT_EQ(of({one}), IdOf(ResponseOf("2", {one})).fingerprint);
  EXPECT_NE(of({one, two}), of({one}));
  EXPECT_NE(of({one, one}), of({one}));
  EXPECT_NE(of({one}), of({ConfigOf("shop", 6)}));
  EXPECT_NE(of({}), of({one}));
}

TEST_F(XdsTest, NewerSetArrivesDuringCompilation_OnlyTheNewerIsAnswered) {
  Start();
  plane_.NextRequest();
  taker_.Hold();
  plane_.Send(ResponseOf("1", {ConfigOf("shop", 1)}));
  ASSERT_TRUE(WaitUntil(kTimeout, [&] { return taker_.taken() == 1; }));
  const auto done_first = taker_.Release();
  plane_.Send(ResponseOf("2", {ConfigOf("shop", 2)}));
  EXPECT_EQ(plane_.NextRequest().version_info(), "2");
  done_first({"too late"});
  plane_.Send(ResponseOf("3", {ConfigOf("shop", 3)}));
  EXPECT_EQ(plane_.NextRequest().response_nonce(), "nonce-3");
}

TEST_F(XdsTest, StreamBreaks_ReconnectsWithTheAcceptedVersionAndNoNonce) {
  Start();
  plane_.NextRequest();
  plane_.Send(ResponseOf("4", {ConfigOf("shop", 5)}));
  plane_.NextRequest();
  plane_.Send(ResponseOf("5", {ConfigOf("", 5)}));
  plane_.NextRequest();
  plane_.BreakStream();
  const DiscoveryRequest first = plane_.NextRequest();
  EXPECT_EQ(first.version_info(), "4");
  EXPECT_EQ(first.response_nonce(), "");
  EXPECT_EQ(first.node().id(), "envoy-ratelimit");
  EXPECT_EQ(taker_.trees().size(), 1U);
  EXPECT_THAT(log_.Lines("xds: the stream from"), Not(IsEmpty()));
}

TEST_F(XdsTest, ControlPlaneDownAtStart_IsFoundLater) {
  const int port = plane_.port();
  plane_.Stop();
  Start();
  ASSERT_TRUE(WaitUntil(kTimeout, [&] { return !log_.Lines("xds: the stream from").empty(); }));
  EXPECT_FALSE(client_->status().connected);
  EXPECT_FALSE(client_->status().accepted_at.has_value());
  plane_.Start(port);
  plane_.NextRequest();
  plane_.Send(ResponseOf("1", {ConfigOf("shop", 5)}));
  EXPECT_EQ(plane_.NextRequest().version_info(), "1");
}

// When the client is destroyed, its stream is open, and a set is being compiled.
TEST_F(XdsTest, ClientIsDestroyed_LaterResultIsIgnored) {
  Start();
  plane_.NextRequest();
  taker_.Hold();
  plane_.Send(ResponseOf("1", {ConfigOf("shop", 1)}));
  ASSERT_TRUE(WaitUntil(kTimeout, [&] { return taker_.taken() == 1; }));
  const auto done = taker_.Release();
  client_.reset();
  done({});
}

TEST_F(XdsTest, Metadata_IsReadAsIfFromAFile) {
  Start();
  plane_.NextRequest();
  RateLimitConfig config = ConfigOf("shop", 5);
  auto& fields = *config.mutable_descriptors(0)->mutable_metadata()->mutable_fields();
  auto& list = *fields["list"].mutable_list_value();
  list.add_values()->set_bool_value(true);
  list.add_values()->set_number_value(1.5);
  list.add_values()->set_string_value("text");
  fields["map"].mutable_struct_value();
  plane_.Send(ResponseOf("1", {config}));
  EXPECT_FALSE(plane_.NextRequest().has_error_detail());
  const YamlNode metadata = taker_.trees().at(0).descriptors.at(0).metadata;
  const YamlNode* const items = metadata.Find("list");
  ASSERT_NE(items, nullptr);
  ASSERT_EQ(items->items.size(), 3U);
  EXPECT_EQ(items->items[0].text, "true");
  EXPECT_EQ(items->items[1].text, "1.5");
  EXPECT_TRUE(items->items[2].quoted);
  ASSERT_NE(metadata.Find("map"), nullptr);
}

}  // namespace
}  // namespace sluice::envoy
