// Envoy's service with each kind of store, and with a clock that the test controls.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "envoy/rls/rate_limit_service.h"
#include "envoy/rules/compiler.h"
#include "envoy/rules/rules_loader.h"
#include "limiter/limiter.h"
#include "tests/envoy/rls_text.h"
#include "tests/envoy/rule_resources.h"
#include "tests/store/store_test.h"

namespace sluice::envoy {

enum class RulesBy { kFile, kResources };

// The index of the rules in `text`. With RulesBy::kResources, the rules are first converted to the
// resources of a control plane, if resources can express them.
inline std::shared_ptr<const RuleIndex> IndexOf(std::string text, RulesBy by = RulesBy::kFile) {
  RuleTexts texts;
  texts.files.push_back({"f.yaml", std::move(text)});
  LoadedTrees loaded = ParseRules(std::move(texts), false);
  if (by == RulesBy::kResources && loaded.ok()) {
    if (const auto documents = AsResources(loaded.trees))
      loaded = ParseRules({}, false, *documents);
  }
  for (const Diagnostic& error : loaded.errors) ADD_FAILURE() << error.ToString();
  CompiledRules compiled = Compile(std::move(loaded.trees));
  return RuleIndex::Build(std::move(compiled.rules), {.guide = compiled.guide}).value();
}

// One call. Run makes the call on the io thread and waits for its end.
class BlockingCall final : public rpc::Call, public rpc::UnaryResponder {
 public:
  SteadyTime deadline() const override { return until; }
  SteadyTime received() const override { return SteadyNow(); }
  std::optional<std::string_view> Metadata(std::string_view) const override { return {}; }
  const net::Peer& peer() const override { return peer_; }

  void Finish(std::string_view message, std::function<void()>) override { End(message, {}); }
  void Finish(const rpc::Status& ended) override { End({}, ended); }

  // `request` must live until the call has ended.
  void Run(rpc::UnaryHandler& handler, std::string_view request) {
    handler.Attach(*this);
    test::Io().loop(0).Post([this, &handler, request] {
      handler.Serve(*this, request);
      if (cancels) handler.OnCancel();
    });
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_; });
    }
    test::Io().RunOn(0, [](net::EpollLoop&) {});  // waits until the handler has returned
  }

  SteadyTime until = SteadyTime::max();
  bool cancels = false;  // Run cancels the call right after its start
  rpc::Status status;
  std::string response;

 private:
  void End(std::string_view message, const rpc::Status& how) {
    const std::lock_guard lock(mutex_);
    response = message;
    status = how;
    ended_ = true;
    changed_.notify_all();
  }

  const net::Peer peer_{.address = "unix"};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
};

inline constexpr const char* kHitRules = R"(
domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 10}}
  - {key: zero, rate_limit: {unit: minute, requests_per_unit: 0}}
  - {key: max, rate_limit: {unit: minute, requests_per_unit: 4294967295}}
  - {key: free, rate_limit: {unlimited: true}}
)";

class RlsTest : public test::StoreTest {
 protected:
  // Starts a new service with `rules` and `settings`. The counters in the store continue.
  void Serve(const std::string& rules, const EnvoySettings& settings = {},
             bool deny_cache = false) {
    ServeFrom(*store_, rules, settings, deny_cache);
  }
  void ServeFrom(Store& store, const std::string& rules, const EnvoySettings& settings = {},
                 bool deny_cache = false) {
    handler_.reset();
    service_.reset();
    limiter_ = std::make_unique<Limiter>(
        Limiter::Dependencies{
            .store = store, .local = local_, .fallback = fallback_, .metrics = metrics_},
        Limiter::Options{.store_timeout = std::chrono::seconds(10), .deny_cache = deny_cache});
    // With the store "redis", the rules come from resources; with the other stores, from files.
    limiter_->SetRules(
        IndexOf(rules, GetParam() == "redis" ? RulesBy::kResources : RulesBy::kFile));
    service_ = std::make_unique<RateLimitService>(*limiter_, metrics_, settings);
    rpc::Methods methods;
    service_->AddTo(methods);
    handler_ = methods.front().unary(test::Io().loop(0));
  }

  // The answer of the service, as in rls_text.h. If the call fails, returns "code message".
  std::string Ask(std::string_view request) { return AskBytes(RequestOf(request)); }
  std::string AskBytes(const pb::RateLimitRequest& request) {
    return AskRaw(request.SerializeAsString());
  }
  std::string AskRaw(const std::string& bytes) {
    BlockingCall call;
    call.Run(*handler_, bytes);
    if (!call.status.ok()) {
      return fmt::format("{} {}", static_cast<int>(call.status.code), call.status.message);
    }
    EXPECT_TRUE(last_.ParseFromString(call.response));
    return TextOf(last_);
  }

  struct Row {
    std::string request;  // "+20": 20 s pass
    std::string answer;
  };
  void ExpectAnswers(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      if (row.request.starts_with('+')) {
        clock_.Advance(std::chrono::seconds(std::stoll(row.request.substr(1))));
      } else {
        ++cases_;
        EXPECT_EQ(Ask(row.request), row.answer) << row.request;
      }
    }
  }

  // Checks that the tables have enough rows.
  static void TearDownTestSuite() {
    constexpr int kStores = 3;
    constexpr int kLeastCases = 150;
    fmt::print("{} cases on each of {} stores\n", cases_ / kStores, kStores);
    if (GTEST_FLAG_GET(filter) != "*") return;
    EXPECT_GE(cases_ / kStores, kLeastCases);
  }

  static inline int cases_ = 0;  // rows of the tables, over all stores

  MetricsRegistry metrics_;
  MemoryStore local_{clock_, {}};
  Fallback fallback_{clock_};
  std::unique_ptr<Limiter> limiter_;
  std::unique_ptr<RateLimitService> service_;
  std::unique_ptr<rpc::UnaryHandler> handler_;
  pb::RateLimitResponse last_;
};

}  // namespace sluice::envoy
