#include "tests/simulation/schedule.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tests/simulation/caller.h"
#include "tests/simulation/fleet.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/rules.h"
#include "tests/simulation/sluice_server.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kRedisTimeout = SluiceServer::kRedisTimeout;
constexpr milliseconds kLoad(400);        // calls and faults occur for this long
constexpr seconds kAftermath(3);          // until nothing is left of them
constexpr milliseconds kRetryPause(100);  // after a release that failed

class Schedule {
 public:
  Schedule(std::uint64_t seed, RedisServer::Planted planted)
      : world_(seed),
        fleet_(
            world_,
            [this](const auto& master, const auto& standby) { ledger_.TakeOver(master, standby); },
            planted) {}

  Report Run();

 private:
  // One check: a call by itself, or a part of a batch.
  struct Question {
    const Endpoint* endpoint;
    std::string user;
    std::int64_t cost;  // 0: only peeks
    v1::CheckLimitRequest request;
  };
  struct Call {
    std::int64_t server;
    Caller* caller;
    std::vector<Question> questions;
    bool is_batch = false;
    SteadyTime sent;
    bool decided = false;
    bool answered = false;
  };

  void ScheduleCalls();
  void ScheduleFaults();
  void MakeCall();
  Question MakeQuestion();
  void Send(Call& call);
  void OnOutcome(Call& call, const Caller::Outcome& outcome);
  void OnBatch(const Call& call, const v1::CheckLimitsResponse& batch);
  void OnAnswer(const Call& call, const Question& question, const v1::CheckLimitResponse& response);
  void JudgeOrder(const Call& call, const v1::CheckLimitsResponse& batch);
  void Deny(const Question& question);
  void JudgeError(const Question& question, int status);
  void JudgeTime(const Call& call, const Caller::Outcome& outcome);
  void Hold(const std::string& lease, const std::string& key, std::int64_t slots,
            std::int64_t server, bool by_store);
  void Release(const std::string& lease, std::int64_t server);
  void Judge();
  void Break(std::string what) { report_.broken.push_back(std::move(what)); }

  World world_;
  Report report_;
  Ledger ledger_;
  Fleet fleet_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::string out_of_order_;  // an endpoint for which checks of one batch were decided out of order
};

void Schedule::ScheduleCalls() {
  const std::uint64_t n = 10 + world_.Below(60);
  for (std::uint64_t i = 0; i < n; ++i) {
    // Half of them come in bursts.
    const Duration at = world_.OneIn(2) ? world_.Between(Duration(0), kLoad)
                                        : milliseconds(20 + 40 * world_.Below(9));
    world_.After(milliseconds(10) + at, [this] { MakeCall(); });
  }
}

void Schedule::MakeCall() {
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.server = static_cast<std::int64_t>(world_.Below(Fleet::kServers));
  call.caller = &fleet_.CallerOf(call.server);
  call.sent = world_.now();
  call.is_batch = world_.OneIn(10);
  const std::uint64_t n = call.is_batch ? 1 + world_.Below(8) : 1;
  // Half of the batches use few counters often, so that the order matters.
  const bool varied = world_.OneIn(2);
  for (std::uint64_t i = 0; i < n; ++i) {
    call.questions.push_back(varied || i < 2 ? MakeQuestion() : call.questions[i % 2]);
    const Question& question = call.questions.back();
    for (const auto& [key, counter] : CountersOf(*question.endpoint, question.user)) {
      ledger_.Ask(key, counter, question.cost);
    }
  }
  ++report_.calls;
  Send(call);
}

Schedule::Question Schedule::MakeQuestion() {
  Question question{.endpoint = &world_.Pick(kEndpoints),
                    .user = std::to_string(world_.Below(2)),
                    .cost = static_cast<std::int64_t>(1 + world_.Below(3)),
                    .request = {}};
  v1::CheckLimitRequest& request = question.request;
  request.set_domain("shop");
  (*request.mutable_attributes())["endpoint"] = question.endpoint->name;
  (*request.mutable_attributes())["user"] = question.user;
  request.set_cost(static_cast<std::uint64_t>(question.cost));
  if (world_.OneIn(12)) {
    request.set_mode(v1::MODE_PEEK);
    question.cost = 0;
  }
  return question;
}

void Schedule::Send(Call& call) {
  const Duration timeouts[] = {Duration(0),     Duration(0),      Duration(1), milliseconds(1),
                               milliseconds(5), milliseconds(20), seconds(1)};
  std::string request = call.questions[0].request.SerializeAsString();
  if (call.is_batch) {
    v1::CheckLimitsRequest batch;
    for (const Question& question : call.questions) *batch.add_checks() = question.request;
    request = batch.SerializeAsString();
  }
  Caller* const caller = call.caller;
  const int number =
      caller->Call(call.is_batch ? "CheckLimits" : "CheckLimit", request, world_.Pick(timeouts),
                   [this, &call](const Caller::Outcome& outcome) { OnOutcome(call, outcome); });
  if (!world_.OneIn(10)) return;
  world_.After(world_.Between(Duration(0), milliseconds(15)),
               [caller, number] { caller->Cancel(number); });
}

void Schedule::OnOutcome(Call& call, const Caller::Outcome& outcome) {
  if (std::exchange(call.decided, true)) return Break("a call was answered twice");
  report_.history += fmt::format("{} {} {}\n", outcome.at.time_since_epoch().count(),
                                 call.questions.size(), outcome.status);
  if (outcome.status < 0) {
    ++report_.unanswered;
    return;
  }
  call.answered = true;
  ++report_.answers;
  JudgeTime(call, outcome);
  if (outcome.status != 0) {
    for (const Question& question : call.questions) JudgeError(question, outcome.status);
    return;
  }
  if (!call.is_batch) {
    v1::CheckLimitResponse response;
    test::Require(response.ParseFromString(outcome.response), "an answer that is no message");
    return OnAnswer(call, call.questions[0], response);
  }
  v1::CheckLimitsResponse batch;
  test::Require(batch.ParseFromString(outcome.response), "an answer that is no message");
  OnBatch(call, batch);
}

void Schedule::OnBatch(const Call& call, const v1::CheckLimitsResponse& batch) {
  if (batch.results_size() != static_cast<int>(call.questions.size())) {
    return Break("a batch has not as many answers as questions");
  }
  for (int i = 0; i < batch.results_size(); ++i) {
    const auto& result = batch.results(i);
    if (result.has_error()) {
      JudgeError(call.questions[static_cast<std::size_t>(i)], result.error().code());
    } else {
      OnAnswer(call, call.questions[static_cast<std::size_t>(i)], result.response());
    }
  }
  JudgeOrder(call, batch);
}

// The store decides checks of equal counters one after another.
void Schedule::JudgeOrder(const Call& call, const v1::CheckLimitsResponse& batch) {
  std::map<std::pair<const Endpoint*, std::string>, std::int64_t> latest;
  for (int i = 0; i < batch.results_size(); ++i) {
    const v1::CheckLimitResponse& response = batch.results(i).response();
    if (batch.results(i).has_error() || response.source() != v1::SOURCE_STORE) continue;
    const Question& question = call.questions[static_cast<std::size_t>(i)];
    const auto& at = response.decided_at();
    const std::int64_t time = at.seconds() * 1'000'000'000 + at.nanos();
    std::int64_t& before = latest[{question.endpoint, question.user}];
    if (time < before) out_of_order_ = question.endpoint->name;
    before = time;
  }
}

// DEADLINE_EXCEEDED, or UNAVAILABLE if a rule requires that.
void Schedule::JudgeError(const Question& question, int status) {
  ++report_.errors;
  if (status == 4) return;
  if (status == 14 && fleet_.policy() == OnStoreFailure::kError) return Deny(question);
  Break(fmt::format("{} was answered with status {}", question.endpoint->name, status));
}

// An answer takes `redis.timeout`, once more if the loop was late, plus the time for which its
// network and its server were stalled.
void Schedule::JudgeTime(const Call& call, const Caller::Outcome& outcome) {
  const auto took = std::chrono::ceil<Duration>(outcome.at - call.sent);
  const Duration late = took - fleet_.network_time() - fleet_.stalls();
  report_.slowest = std::max(report_.slowest, late);
  if (late > 2 * kRedisTimeout + milliseconds(5)) {
    Break(fmt::format("a call was answered after {} µs", took.count()));
  }
}

void Schedule::OnAnswer(const Call& call, const Question& question,
                        const v1::CheckLimitResponse& response) {
  if (response.decision() == v1::DECISION_DENIED) {
    ++report_.denied;
    return Deny(question);
  }
  const bool by_store = response.source() == v1::SOURCE_STORE;
  (by_store ? report_.admitted_by_store : report_.admitted_by_fallback) += question.cost;
  for (const auto& [key, counter] : CountersOf(*question.endpoint, question.user)) {
    ledger_.Admit(key, question.cost, by_store);
    if (!counter.slots || !response.has_lease()) continue;
    Hold(response.lease().id(), key, question.cost, call.server, by_store);
  }
}

void Schedule::Deny(const Question& question) {
  for (const auto& [key, counter] : CountersOf(*question.endpoint, question.user)) {
    ledger_.Deny(key, question.cost);
  }
}

void Schedule::Hold(const std::string& lease, const std::string& key, std::int64_t slots,
                    std::int64_t server, bool by_store) {
  if (by_store) ledger_.Hold(key, slots);
  world_.After(world_.Between(Duration(0), kLoad / 2), [this, lease, key, slots, server, by_store] {
    if (by_store) ledger_.GiveBack(key, slots);
    Release(lease, server);
  });
}

// Until it is known to be released.
void Schedule::Release(const std::string& lease, std::int64_t server) {
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(lease);
  fleet_.CallerOf(server).Call("ReleaseLease", request.SerializeAsString(), Duration(0),
                               [this, lease, server](const Caller::Outcome& outcome) {
                                 if (outcome.status == 0) return;
                                 world_.After(kRetryPause, [=, this] { Release(lease, server); });
                               });
}

void Schedule::ScheduleFaults() {
  const std::uint64_t n = world_.Below(5);
  for (std::uint64_t i = 0; i < n; ++i) {
    world_.After(world_.Between(Duration(0), kLoad), [this] {
      ++report_.faults;
      fleet_.StartFault();
    });
  }
  world_.After(kLoad + milliseconds(20), [this] { fleet_.Heal(); });
}

Report Schedule::Run() {
  ScheduleCalls();
  ScheduleFaults();
  world_.RunUntil(world_.now() + kLoad + kAftermath);
  Judge();
  return std::move(report_);
}

void Schedule::Judge() {
  for (const auto& call : calls_) {
    if (!call->decided) Break("a call was never answered");
    if (call->answered || call->caller->connected()) continue;
    for (const Question& question : call->questions) {
      for (const auto& [key, counter] : CountersOf(*question.endpoint, question.user)) {
        ledger_.Lose(key, question.cost);
      }
    }
  }
  ledger_.Judge(fleet_.redis(), {.local = fleet_.policy() == OnStoreFailure::kLocal,
                                 .in_doubt = fleet_.IsInDoubt()});
  for (const std::string& what : ledger_.broken()) Break(what);
  // If a slot moves back while checks follow it, a later check may find it first.
  if (!out_of_order_.empty() && fleet_.redis().moved_slots() < 2) {
    Break(fmt::format("{} was decided out of order", out_of_order_));
  }
  report_.history += ledger_.Summary(fleet_.redis());
  report_.failovers = fleet_.redis().failovers();
  report_.moved_slots = fleet_.redis().moved_slots();
  if (fleet_.DisconnectCallers() > 0) Break("a call was answered with half a message");
  world_.RunUntil(world_.now() + seconds(2));
  if (!fleet_.Stop()) Break("a server holds on to calls that have ended");
}

}  // namespace

Report RunSchedule(std::uint64_t seed, RedisServer::Planted planted) {
  return Schedule(seed, planted).Run();
}

}  // namespace sluice::simulation
