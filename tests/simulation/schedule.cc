#include "tests/simulation/schedule.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/answers.h"
#include "tests/simulation/fleet.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/model.h"
#include "tests/simulation/rules.h"
#include "tests/simulation/script.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLoad(400);  // calls and faults occur for this long
// Then there are no calls until servers have recovered, or few calls until short-lived keys have
// expired.
constexpr milliseconds kPause(2000);
constexpr milliseconds kLongPause(13000);
constexpr milliseconds kAftermath(2500);  // until the last leases have ended

class Schedule {
 public:
  Schedule(std::uint64_t seed, Planted planted)
      : world_(seed),
        rules_(world_, planted),
        fleet_(
            world_, rules_, script_,
            [this](const auto& master, const auto& standby) { OnTakeOver(master, standby); },
            planted) {
    Allow(0);
  }

  Report Run();

 private:
  void ScheduleCalls(std::uint64_t n, Duration begin);
  void ScheduleFaults();
  void ScheduleReloads();
  void Reload();
  void Allow(int version);
  void MakeCall();
  Question MakeQuestion(bool leases);
  void Send(Call& call);
  void OnTakeOver(const Script::Counters& master, const Script::Counters& standby);
  void Judge();

  World world_;
  Report report_;
  Ledger ledger_;
  Rules rules_;
  Model model_{Rules::CounterOf};
  const Script script_{Rules::AllLimits(), &model_};
  Fleet fleet_;
  Answers answers_{{.world = world_,
                    .rules = rules_,
                    .model = model_,
                    .fleet = fleet_,
                    .ledger = ledger_,
                    .report = report_}};
  std::vector<std::unique_ptr<Call>> calls_;
};

// Half of the calls come in bursts.
void Schedule::ScheduleCalls(std::uint64_t n, Duration begin) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const Duration at = world_.OneIn(2) ? world_.Between(Duration(0), kLoad)
                                        : milliseconds(20 + 40 * world_.Below(9));
    world_.After(begin + at, [this] { MakeCall(); });
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
  // A batch in which only some checks of a counter take leases needs several calls in turn.
  const bool leases = world_.OneIn(3);
  for (std::uint64_t i = 0; i < n; ++i) {
    call.questions.push_back(varied || i < 2 ? MakeQuestion(leases) : call.questions[i % 2]);
  }
  ++report_.calls;
  Send(call);
}

Question Schedule::MakeQuestion(bool leases) {
  Question question{.subject = rules_.DrawSubject(), .request = {}};
  v1::CheckLimitRequest& request = question.request;
  request.set_domain("shop");
  (*request.mutable_attributes())["endpoint"] = question.subject.endpoint;
  (*request.mutable_attributes())["user"] = question.subject.user;
  (*request.mutable_attributes())["team"] = question.subject.team;
  request.set_cost(1 + world_.Below(3));
  (*request.mutable_amounts())[kTokens] = world_.Below(4);
  if (world_.OneIn(12)) {
    request.set_mode(v1::MODE_PEEK);
    question.peeks = true;
  } else if (leases) {
    request.mutable_lease_ttl()->set_nanos(static_cast<int>(
        std::chrono::nanoseconds(world_.Between(milliseconds(100), milliseconds(999))).count()));
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
  const int number = caller->Call(
      call.is_batch ? "CheckLimits" : "CheckLimit", request, world_.Pick(timeouts),
      [this, &call](const Caller::Outcome& outcome) { answers_.OnOutcome(call, outcome); });
  if (!world_.OneIn(10)) return;
  world_.After(world_.Between(Duration(0), milliseconds(15)),
               [caller, number] { caller->Cancel(number); });
}

// Some occur when there are no calls anymore.
void Schedule::ScheduleFaults() {
  const std::uint64_t n = world_.Below(5);
  for (std::uint64_t i = 0; i < n; ++i) {
    const Duration at = world_.OneIn(4) ? kLoad : world_.Between(Duration(0), kLoad);
    world_.After(at, [this] {
      ++report_.faults;
      fleet_.StartFault();
    });
  }
  world_.After(kLoad + milliseconds(20), [this] { fleet_.Heal(); });
}

void Schedule::ScheduleReloads() {
  const std::uint64_t n = world_.Below(4);
  for (std::uint64_t i = 0; i < n; ++i) {
    world_.After(world_.Between(Duration(0), kLoad), [this] { Reload(); });
  }
}

void Schedule::Reload() {
  ++report_.reloads;
  Allow(rules_.DrawVersion());
  fleet_.Reload();
}

void Schedule::Allow(int version) {
  for (const Charged& charged : rules_.AllIn(version)) {
    ledger_.Allow(charged.counter, charged.limit);
  }
}

void Schedule::OnTakeOver(const Script::Counters& master, const Script::Counters& standby) {
  ledger_.TakeOver(master, standby);
  model_.TakeOver(master.by_name, standby.by_name, WorldClock::TimeAt(world_.now()));
}

Report Schedule::Run() {
  ScheduleCalls(10 + world_.Below(60), milliseconds(10));
  ScheduleFaults();
  ScheduleReloads();
  Duration pause = kPause;
  const bool is_long = world_.OneIn(3);
  if (is_long) {
    pause = kLongPause;
    world_.After(kLoad, [this] { Reload(); });
    ScheduleCalls(20 + world_.Below(20), kLoad + milliseconds(200));
  }
  if (is_long || !world_.OneIn(4)) ScheduleCalls(20 + world_.Below(20), kLoad + pause);
  world_.RunUntil(world_.now() + kLoad + pause);
  answers_.ExpectHealth();
  answers_.JudgeLearned();
  world_.RunUntil(world_.now() + kLoad + kAftermath);
  answers_.JudgeLearned();
  Judge();
  return std::move(report_);
}

void Schedule::Judge() {
  const Time now = WorldClock::TimeAt(world_.now());
  for (const auto& call : calls_) answers_.JudgeCall(*call);
  answers_.JudgeLeases();
  ledger_.Judge(fleet_.redis(), {.local = rules_.policy() == OnStoreFailure::kLocal,
                                 .in_doubt = fleet_.IsInDoubt(),
                                 .crashes = fleet_.crashes(),
                                 .now = now});
  answers_.JudgeOrder();
  for (const std::string& what : model_.untrue()) report_.broken.push_back(what);
  for (const std::string& what : ledger_.broken()) report_.broken.push_back(what);
  report_.history += ledger_.Summary(fleet_.redis(), now);
  report_.failovers = fleet_.redis().failovers();
  report_.crashes = fleet_.crashes();
  report_.moved_slots = fleet_.redis().moved_slots();
  if (fleet_.DisconnectCallers() > 0) {
    report_.broken.push_back("a call was answered with an incomplete message");
  }
  world_.RunUntil(world_.now() + seconds(2));
  if (!fleet_.Stop()) report_.broken.push_back("a server keeps state of calls that have ended");
}

}  // namespace

Report RunSchedule(std::uint64_t seed, Planted planted) { return Schedule(seed, planted).Run(); }

}  // namespace sluice::simulation
