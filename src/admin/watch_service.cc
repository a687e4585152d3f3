#include "admin/watch_service.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sluice/v1/admin.pb.h>

#include "api/received_message.h"
#include "base/hash.h"
#include "base/log.h"

namespace sluice {
namespace {

using Checks = std::unordered_map<const MetricLabels*, double>;

// The first frame covers at least this time.
constexpr std::chrono::milliseconds kLeastPeriod(500);

void FillLatency(const Histogram& histogram, const Histogram::Snapshot& before,
                 const Histogram::Snapshot& now, v1::LatencyHistogram& to) {
  for (const auto bound : histogram.bounds()) {
    to.add_bounds(std::chrono::duration<double>(bound).count());
  }
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
    to.add_counts(now.counts[i] - before.counts[i]);
  }
}

v1::Source SourceNamed(std::string_view name) {
  for (int source = 1; source < v1::Source_ARRAYSIZE; ++source) {
    if (ToString(static_cast<Source>(source)) == name) return static_cast<v1::Source>(source);
  }
  return v1::SOURCE_UNSPECIFIED;
}

void AddDecisions(const MetricLabels& labels, std::uint64_t checks, v1::WatchedRule& rule) {
  rule.set_domain(labels.at("domain"));
  rule.set_rule(labels.at("rule"));
  const std::string& decision = labels.at("decision");
  rule.set_shadow(decision.starts_with("shadow_"));
  const v1::Source source = SourceNamed(labels.at("source"));
  auto& all = *rule.mutable_decisions();
  auto found = std::ranges::find(all, source, &v1::SourceDecisions::source);
  v1::SourceDecisions& to = found == all.end() ? *all.Add() : *found;
  to.set_source(source);
  decision.ends_with("denied") ? to.set_denied(checks) : to.set_allowed(checks);
}

std::uint64_t ChecksOf(const v1::WatchedRule& rule) {
  std::uint64_t sum = 0;
  for (const auto& it : rule.decisions()) sum += it.allowed() + it.denied();
  return sum;
}

void FillRules(const Checks& before, const Checks& now, v1::WatchFrame& frame) {
  std::map<std::pair<std::string_view, std::string_view>, v1::WatchedRule> rules;
  for (const auto& [labels, value] : now) {
    const auto known = before.find(labels);
    const double checks = value - (known == before.end() ? 0 : known->second);
    if (checks <= 0) continue;
    AddDecisions(*labels, static_cast<std::uint64_t>(checks),
                 rules[{labels->at("domain"), labels->at("rule")}]);
  }
  std::vector<v1::WatchedRule*> busiest;
  for (auto& [name, rule] : rules) busiest.push_back(&rule);
  std::ranges::stable_sort(busiest, std::greater(), [](const auto* it) { return ChecksOf(*it); });
  const std::size_t shown = std::min(busiest.size(), WatchService::kMaxRules);
  for (std::size_t i = 0; i < shown; ++i) *frame.add_rules() = std::move(*busiest[i]);
  frame.set_rules_left_out(busiest.size() - shown);
}

void FillStore(const MetricsRegistry& metrics, v1::WatchedStore& to) {
  for (const auto& connected : metrics.Read("sluice_redis_connected")) {
    to.set_redis(true);
    to.set_connections(to.connections() + 1);
    if (connected.value > 0) to.set_ready(to.ready() + 1);
  }
  for (const auto& breaker : metrics.Read("sluice_redis_breaker_state")) {
    if (breaker.value > 0) to.set_breakers_open(to.breakers_open() + 1);
  }
  for (const auto& waiting : metrics.Read("sluice_redis_waiting_checks")) {
    to.set_waiting(to.waiting() + static_cast<std::uint64_t>(waiting.value));
  }
}

void FillKeys(const std::vector<KeySketch::Entry>& from, bool show,
              google::protobuf::RepeatedPtrField<v1::WatchedKey>& to) {
  for (const KeySketch::Entry& entry : from) {
    v1::WatchedKey& key = *to.Add();
    key.set_domain(entry.domain);
    key.set_rule(entry.rule);
    key.set_limit(entry.limit);
    if (show) key.set_key(entry.key);
    key.set_digest(Sha256Hex128(entry.key));
    key.set_count(entry.count);
    key.set_error(entry.error);
  }
}

}  // namespace

// One watcher. A frame may arrive after the call that asked for it has ended. The frame's serial
// number then differs from the current one, and the frame is ignored.
class WatchService::Handler final : public rpc::StreamHandler {
 public:
  Handler(WatchService& service, std::shared_ptr<const AdminAccess> access, net::Loop& loop)
      : service_(service),
        access_(std::move(access)),
        loop_(loop),
        timer_(loop.timers(), [this] { AskForFrame(); }) {}

  void OnStart(const rpc::Call& call) override {
    call_ = &call;
    open_ = true;
    if (const auto caller = AdmitOperator(*access_, call); !caller) End(ToStatus(caller.error()));
  }

  void OnMessage(std::string_view message) override {
    if (!open_) return;
    v1::WatchRequest request;
    if (watching_ || !ParseMessage(message, request)) {
      return End({rpc::StatusCode::kInvalidArgument, "expects one WatchRequest"});
    }
    const auto caller = AdmitOperator(*access_, *call_);
    if (!caller) return End(ToStatus(caller.error()));
    if (service_.watchers_.fetch_add(1) >= kMaxWatchers) {
      service_.watchers_.fetch_sub(1);
      return End({rpc::StatusCode::kResourceExhausted,
                  fmt::format("{} callers already watch this server; end a `sluice top` or "
                              "`sluice console`",
                              kMaxWatchers)});
    }
    spdlog::info("admin: {} ({}) watches", *caller, call_->peer().address);
    watching_ = true;
    AskForFrame();  // starts the watch if there is no other watcher
    timer_.Start(std::chrono::ceil<std::chrono::seconds>(loop_.now() + kLeastPeriod));
  }

  void OnHalfClose() override {
    if (open_ && !watching_) End({rpc::StatusCode::kInvalidArgument, "expects one WatchRequest"});
  }
  void OnDrain() override { End({rpc::StatusCode::kUnavailable, "this server is shutting down"}); }
  void OnCancel() override { End({.code = rpc::StatusCode::kCancelled}); }

 private:
  // If the worker's queue is full, there is no frame for this second.
  void AskForFrame() {
    timer_.Start(std::chrono::floor<std::chrono::seconds>(loop_.now()) + std::chrono::seconds(1));
    static_cast<void>(service_.uses_.worker.Post([this, serial = serial_] {
      loop_.Post([this, serial, frame = service_.FrameOfThisSecond()] { OnFrame(serial, frame); });
    }));
  }

  // Access is checked again, since the token may have been replaced.
  void OnFrame(std::uint64_t serial, const Frame& frame) {
    if (serial != serial_ || frame == nullptr || frame == sent_) return;
    if (const auto caller = AdmitOperator(*access_, *call_); !caller) {
      return End(ToStatus(caller.error()));
    }
    if (unsent_bytes() > 0) return;  // a slow reader gets fewer frames
    sent_ = frame;
    Send(*frame);
  }

  void End(const rpc::Status& status) {
    if (!std::exchange(open_, false)) return;
    ++serial_;
    timer_.Cancel();
    sent_.reset();
    if (std::exchange(watching_, false) && service_.watchers_.fetch_sub(1) == 1) {
      static_cast<void>(service_.uses_.worker.Post([&service = service_] { service.TidyKeys(); }));
    }
    Finish(status);
  }

  WatchService& service_;
  const std::shared_ptr<const AdminAccess> access_;
  net::Loop& loop_;
  net::Timer timer_;
  const rpc::Call* call_ = nullptr;  // while open_
  bool open_ = false;
  bool watching_ = false;  // the request has come
  std::uint64_t serial_ = 0;
  Frame sent_;
};

WatchService::WatchService(const Dependencies& dependencies, const Options& options)
    : uses_(dependencies), options_(options) {
  TidyKeys();
}

void WatchService::AddTo(rpc::Methods& methods, AdminAccess access) {
  const auto& service = *v1::WatchRequest::descriptor()->file()->service(0);
  const auto shared = std::make_shared<const AdminAccess>(std::move(access));
  methods.push_back(
      {.path = "/" + service.full_name() + "/Watch", .stream = [this, shared](net::Loop& loop) {
         return std::make_unique<Handler>(*this, shared, loop);
       }});
}

void WatchService::TidyKeys() {
  const bool watched = watchers_.load() > 0;
  if (!watched) {
    last_.reset();
    frame_.reset();
  }
  const bool counts = watched || options_.top_keys;
  if (!counts && std::exchange(counts_keys_, false)) uses_.limiter.top_keys().Stop();
  const bool begins = counts && !counts_keys_;
  if (!begins && !(counts_keys_ && SteadyNow() - keys_begun_ >= kKeysPeriod)) return;
  uses_.limiter.top_keys().Restart();
  counts_keys_ = true;
  keys_begun_ = SteadyNow();
  keys_since_ = Clock::System().Now();
}

WatchService::Frame WatchService::FrameOfThisSecond() {
  TidyKeys();
  const Second second = std::chrono::floor<std::chrono::seconds>(SteadyNow());
  if (last_ && second == second_) return frame_;
  second_ = second;
  Snapshot now = TakeSnapshot();
  frame_ = last_ ? MakeFrame(*last_, now) : nullptr;
  last_ = std::move(now);
  return frame_;
}

WatchService::Snapshot WatchService::TakeSnapshot() const {
  const LimiterMetrics& limiter = uses_.limiter.metrics();
  Snapshot now{.at = SteadyNow(),
               .checks = {},
               .check_latency = limiter.check_duration.Read(),
               .store_latency = limiter.store_duration.Read(),
               .failures = SumOf("sluice_store_failures_total")};
  for (const auto& [labels, value] : uses_.metrics.Read("sluice_checks_total")) {
    now.checks.emplace(labels, value);
  }
  return now;
}

double WatchService::SumOf(std::string_view metric) const {
  double sum = 0;
  for (const auto& sample : uses_.metrics.Read(metric)) sum += sample.value;
  return sum;
}

WatchService::Frame WatchService::MakeFrame(const Snapshot& before, const Snapshot& now) const {
  v1::WatchFrame frame;
  FillTime(Clock::System().Now().time_since_epoch(), *frame.mutable_time());
  FillTime(now.at - before.at, *frame.mutable_period());
  FillRules(before.checks, now.checks, frame);
  const LimiterMetrics& limiter = uses_.limiter.metrics();
  FillLatency(limiter.check_duration, before.check_latency, now.check_latency,
              *frame.mutable_check_latency());
  FillLatency(limiter.store_duration, before.store_latency, now.store_latency,
              *frame.mutable_store_latency());
  FillStore(uses_.metrics, *frame.mutable_store());
  frame.mutable_store()->set_failures(static_cast<std::uint64_t>(now.failures - before.failures));
  frame.set_fleet_servers(static_cast<std::uint64_t>(SumOf("sluice_fleet_servers")));
  frame.set_fleet_share(SumOf("sluice_fleet_share"));
  const TopKeys::Keys keys = uses_.limiter.top_keys().Read(kMaxKeys);
  FillTime(keys_since_.time_since_epoch(), *frame.mutable_keys()->mutable_since());
  FillKeys(keys.denied, options_.show_keys, *frame.mutable_keys()->mutable_denied());
  FillKeys(keys.used, options_.show_keys, *frame.mutable_keys()->mutable_used());
  return std::make_shared<const std::string>(frame.SerializeAsString());
}

}  // namespace sluice
