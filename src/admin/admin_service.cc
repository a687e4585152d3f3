#include "admin/admin_service.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <google/protobuf/message_lite.h>
#include <sluice/v1/admin.pb.h>

#include "admin/explain.h"
#include "admin/reset_limit.h"
#include "api/answer_writer.h"
#include "api/received_message.h"
#include "base/log.h"
#include "config/rule_yaml.h"

namespace sluice {
namespace {

using Dependencies = std::shared_ptr<const AdminDependencies>;

// Checks the caller's access and parses the request.
template <typename Request>
class AdminHandler : public rpc::UnaryHandler {
 public:
  explicit AdminHandler(Dependencies uses) : uses_(std::move(uses)) {}

  void Serve(const rpc::Call& call, std::string_view bytes) final {
    const auto admitted = AdmitOperator(uses_->access, call);
    if (!admitted) return Fail(admitted.error());
    operator_ = fmt::format("{} ({})", *admitted, call.peer().address);
    if (!ParseMessage(bytes, message_)) {
      return Fail(InvalidArgument("the request is not a valid protobuf message"));
    }
    Answer(call);
  }

 protected:
  void Fail(const Error& error) { Finish(ToStatus(error)); }
  void FinishWith(const google::protobuf::MessageLite& response) {
    Finish(response.SerializeAsString());
  }

  const AdminDependencies& uses() const { return *uses_; }

  // The caller, for the log: "the admin token (192.0.2.1:4711)".
  const std::string& caller() const { return operator_; }

  // Valid until Finish or the next Serve.
  const Request& message() const { return message_; }

 private:
  // Must finish the call, now or later. `call` is valid until then, or until OnCancel returns.
  virtual void Answer(const rpc::Call& call) = 0;

  const Dependencies uses_;
  std::string operator_;
  Request message_;
};

// Explain and ResetLimit, the calls for the counters of a request. They do not block.

// A check with the domain, attributes and amounts of `request`. Its texts are views of `request`.
template <typename Request>
CheckRequest ToCheckRequest(const Request& request, SteadyTime deadline) {
  CheckRequest check;
  check.domain = request.domain();
  for (const auto& [name, value] : request.attributes()) check.attributes.push_back({name, value});
  if constexpr (requires { request.amounts(); }) {
    for (const auto& [name, value] : request.amounts()) {
      check.amounts.push_back({name, static_cast<std::int64_t>(value)});
    }
  }
  check.deadline = deadline;
  return check;
}

void AddGrants(std::int64_t units, Time end, v1::ExplainedCounter& to) {
  if (units == 0) return;
  v1::GrantsOut& grants = *to.add_grants();
  grants.set_units(static_cast<std::uint64_t>(units));
  FillTime(end.time_since_epoch(), *grants.mutable_end());
}

void FillRule(const ExplainedRule& from, v1::ExplainedRule& to) {
  to.set_rule(std::string(from.rule));
  to.set_effect(std::string(from.effect));
  to.set_reason(from.reason);
  for (const ExplainedCounter& counter : from.counters) {
    v1::ExplainedCounter& filled = *to.add_counters();
    filled.set_key(counter.key);
    Fill(counter.status, *filled.mutable_status());
    for (const CountedAmount& it : counter.counts) {
      (*filled.mutable_counts())[it.name] = static_cast<std::uint64_t>(it.weight);
    }
    if (counter.counts.empty()) (*filled.mutable_counts())[std::string(CountedAmount::kCost)] = 1;
    AddGrants(counter.grants.older, counter.grants.older_ends, filled);
    AddGrants(counter.grants.newer, counter.grants.newer_ends, filled);
  }
}

// Sets the field `xds` of a response, if rules come from a control plane.
template <typename Response>
void FillXds(const RuleSource* rules, Response& response) {
  const auto xds = rules == nullptr ? std::nullopt : rules->xds();
  if (!xds) return;
  v1::RulesByXds& to = *response.mutable_xds();
  to.set_connected(xds->connected);
  to.set_version(xds->version);
  if (xds->accepted_at) {
    FillTime(std::chrono::floor<Duration>(SteadyNow() - *xds->accepted_at), *to.mutable_age());
  }
  to.set_resources(xds->resources);
  to.set_refused(xds->refused);
  to.set_last_refusal(xds->last_refusal);
}

v1::ExplainedLease ToExplained(const LeaseReport& report) {
  v1::ExplainedLease lease;
  lease.set_open(report.outcome == LeaseOutcome::kSettled);
  if (lease.open()) FillTime(report.ends.time_since_epoch(), *lease.mutable_ends_at());
  for (const LeasedLimit& limit : report.limits) {
    v1::ExplainedCounter& counter = *lease.add_counters();
    counter.set_key(limit.counter.key);
    Fill(limit, *counter.mutable_status());
    for (const auto& counted : limit.counter.counts) {
      (*counter.mutable_counts())[report.taken[counted.amount].name] =
          static_cast<std::uint64_t>(counted.weight);
    }
  }
  for (const LeaseName::Amount& amount : report.taken) {
    (*lease.mutable_amounts())[amount.name] = static_cast<std::uint64_t>(amount.value);
  }
  return lease;
}

class ExplainHandler final : public AdminHandler<v1::ExplainRequest>,
                             private ExplainCall,
                             private LeaseCall {
 public:
  explicit ExplainHandler(const Dependencies& uses)
      : AdminHandler(uses), ExplainCall(uses->limiter), LeaseCall(uses->limiter) {}

 private:
  using AdminHandler::Fail;

  void Answer(const rpc::Call& call) override {
    if (message().lease_id().empty()) {
      return ExplainCall::Start(ToCheckRequest(message(), call.deadline()));
    }
    if (!message().domain().empty() || message().attributes_size() + message().amounts_size() > 0) {
      return Fail(InvalidArgument("lease_id: not allowed with domain, attributes or amounts"));
    }
    LeaseCall::Start(Action::kInspect, message().lease_id(), call.deadline());
  }

  void OnLease(const Result<LeaseReport>& report) override {
    if (!report) return Fail(report.error());
    v1::ExplainResponse response;
    *response.mutable_lease() = ToExplained(*report);
    FinishWith(response);
  }

  void OnExplained(const Result<Explanation>& explanation) override {
    if (!explanation) return Fail(explanation.error());
    v1::ExplainResponse response;
    Fill(explanation->answer, "", *response.mutable_response());
    for (const ExplainedRule& rule : explanation->rules) FillRule(rule, *response.add_rules());
    FillXds(uses().rules, response);
    FinishWith(response);
  }
};

class ResetLimitHandler final : public AdminHandler<v1::ResetLimitRequest>, private ResetCall {
 public:
  explicit ResetLimitHandler(const Dependencies& uses)
      : AdminHandler(uses), ResetCall(uses->limiter) {}

 private:
  // Attributes may be personal or secret, so they are not logged.
  void Answer(const rpc::Call& call) override {
    spdlog::info("admin: {} resets counters of domain \"{}\", {}", caller(),
                 LogText(message().domain()),
                 message().rule().empty() ? "all rules" : "rule " + LogText(message().rule()));
    Start(ToCheckRequest(message(), call.deadline()), message().rule());
  }

  void OnReset(Result<std::vector<std::string>> keys) override {
    if (!keys) return Fail(keys.error());
    v1::ResetLimitResponse response;
    for (std::string& key : *keys) response.add_keys(std::move(key));
    FinishWith(response);
  }
};

// The calls that take long. They run on the worker's thread and post their answer to the loop.

v1::ListRulesResponse RulesOf(const Limiter& limiter, const std::string& domain) {
  v1::ListRulesResponse response;
  const auto rules = limiter.rules();
  for (const IndexedRule& rule : rules->index->rules()) {
    // The built-in rule for limits in Envoy's requests has no location, and is not listed.
    if (rule.rule.location.empty() || (!domain.empty() && domain != rule.domain)) continue;
    v1::RuleInfo& info = *response.add_rules();
    info.set_domain(rule.domain);
    info.set_rule(rule.rule.name);
    info.set_location(rule.rule.location);
    info.set_yaml(ToYaml(rule.rule));
  }
  return response;
}

v1::ReloadRulesResponse ToResponse(const ReloadResult& result) {
  v1::ReloadRulesResponse response;
  response.set_applied(result.applied);
  response.set_unchanged(result.unchanged);
  for (const std::string& error : result.errors) response.add_errors(error);
  response.set_rules(result.rules);
  FillTime(result.loaded_at.time_since_epoch(), *response.mutable_loaded_at());
  return response;
}

template <typename Request>
class WorkerHandler : public AdminHandler<Request> {
 public:
  WorkerHandler(const Dependencies& uses, net::Loop& loop)
      : AdminHandler<Request>(uses), loop_(loop) {}

 protected:
  // Answers with the message that `work` returns on the worker's thread.
  void FinishFromWorker(std::function<std::string()> work) {
    const bool posted = this->uses().worker.Post([this, work = std::move(work)] {
      loop_.Post([this, response = work()] { this->Finish(response); });
    });
    if (!posted) {
      this->Fail({ErrorCode::kUnavailable, "too many admin calls are in progress; try again"});
    }
  }

 private:
  net::Loop& loop_;
};

class ListRulesHandler final : public WorkerHandler<v1::ListRulesRequest> {
 public:
  using WorkerHandler::WorkerHandler;

 private:
  void Answer(const rpc::Call&) override {
    spdlog::info("admin: {} lists the rules", caller());
    FinishFromWorker([this, domain = message().domain()] {
      v1::ListRulesResponse response = RulesOf(uses().limiter, domain);
      FillXds(uses().rules, response);
      return response.SerializeAsString();
    });
  }
};

class ReloadRulesHandler final : public WorkerHandler<v1::ReloadRulesRequest> {
 public:
  using WorkerHandler::WorkerHandler;

 private:
  void Answer(const rpc::Call&) override {
    if (uses().rules == nullptr) {
      return Fail({ErrorCode::kUnimplemented, "this server's rules cannot be read again"});
    }
    spdlog::info("admin: {} reads the rules again", caller());
    FinishFromWorker(
        [rules = uses().rules] { return ToResponse(rules->Reload()).SerializeAsString(); });
  }
};

}  // namespace

void AddAdmin(rpc::Methods& methods, AdminDependencies dependencies) {
  SendProtobufLogToOurs();
  const auto uses = std::make_shared<const AdminDependencies>(std::move(dependencies));
  const auto& service = *v1::ExplainRequest::descriptor()->file()->service(0);
  const auto add = [&](const char* name, auto make) {
    methods.push_back({.path = "/" + service.full_name() + "/" + name, .unary = std::move(make)});
  };
  add("Explain", [uses](net::Loop&) { return std::make_unique<ExplainHandler>(uses); });
  add("ResetLimit", [uses](net::Loop&) { return std::make_unique<ResetLimitHandler>(uses); });
  add("ListRules",
      [uses](net::Loop& loop) { return std::make_unique<ListRulesHandler>(uses, loop); });
  add("ReloadRules",
      [uses](net::Loop& loop) { return std::make_unique<ReloadRulesHandler>(uses, loop); });
}

}  // namespace sluice
