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
#include "tests/simulation/uses.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLoad(400);  // calls and faults occur for this long
// Then there is a pause. A short pause lasts until servers have recovered, and has no calls. A long
// pause lasts until short-lived keys have expired, and has a few calls.
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
            [this](const auto& master, const auto& standby, Deployment::Loss loss) {
              OnTakeOver(master, standby, loss);
            },
            planted),
        is_busy_(IsOfGrants(planted) || world_.OneIn(2)) {
    Allow(0);
  }

  Report Run();

 private:
  bool MayLease() const { return !resets_ && !jumps_; }
  void ScheduleCalls(std::uint64_t n, Duration begin);
  void ScheduleBusyCalls();
  struct BusyCalls {
    std::uint64_t calls;
    Duration gap;
    std::uint64_t most_cost;
  };
  Duration ScheduleBusyCalls(const Subject& subject, const BusyCalls& calls, Duration begin);
  void ScheduleStallsAndMoves();
  void ScheduleResets();
  void ScheduleClockJumps();
  void ScheduleFaults();
  void ScheduleReloads();
  void Reload();
  void Allow(int version);
  void MakeCall();
  void MakeBusyCall(std::uint64_t server, const Subject& subject, std::uint64_t most_cost);
  Question MakeQuestion(const Subject& subject, bool leases);
  // Some calls have a short deadline, or are canceled.
  void Send(Call& call, bool may_lack_patience);
  void OnTakeOver(const Script::Counters& master, const Script::Counters& standby,
                  Deployment::Loss loss);
  void Judge();

  World world_;
  Report report_;
  Ledger ledger_;
  Uses uses_;
  Rules rules_;
  Model model_{Rules::CounterOf};
  const Script script_{Rules::AllLimits(), &model_};
  Fleet fleet_;
  Answers answers_{{.world = world_,
                    .rules = rules_,
                    .model = model_,
                    .fleet = fleet_,
                    .ledger = ledger_,
                    .uses = uses_,
                    .report = report_}};
  std::vector<std::unique_ptr<Call>> calls_;
  // Some schedules are busy: many calls use a few counters, and servers prefetch units of these.
  // After a reset, the store may admit units a second time although leases still hold them, so
  // schedules with resets take no leases.
  const bool is_busy_;
  const bool resets_ = is_busy_ && world_.OneIn(4);
  // Redis' clock jumps. Leases end by that clock, and callers do not know of the jump, so schedules
  // with jumps take no leases.
  const bool jumps_ = is_busy_ && world_.OneIn(5);
  const bool leases_busily_ = MayLease() && world_.OneIn(3);
};

// Half of the calls come in bursts.
void Schedule::ScheduleCalls(std::uint64_t n, Duration begin) {
  for (std::uint64_t i = 0; i < n; ++i) {
    const Duration at = world_.OneIn(2) ? world_.Between(Duration(0), kLoad)
                                        : milliseconds(20 + 40 * world_.Below(9));
    world_.After(begin + at, [this] { MakeCall(); });
  }
}

// Schedules trickles and rushes. In a trickle, servers take units and return them. A rush uses all
// units that are left. Many rushes follow a trickle of the same subject, while servers hold units.
void Schedule::ScheduleBusyCalls() {
  const Subject subjects[] = {rules_.DrawBusySubject(), rules_.DrawBusySubject()};
  Duration begin(0);
  Subject subject = subjects[0];
  for (std::uint64_t phase = 0, phases = 2 + world_.Below(4); phase < phases; ++phase) {
    const bool rushes = phase % 2 == 1 || world_.OneIn(8);
    if (world_.OneIn(4)) begin = world_.Between(Duration(0), kLoad);
    if (world_.OneIn(4)) subject = world_.Pick(subjects);
    const BusyCalls calls = rushes ? BusyCalls{.calls = 60 + world_.Below(200),
                                               .gap = Duration(1 + world_.Below(100)),
                                               .most_cost = world_.OneIn(4) ? 6u : 2u}
                                   : BusyCalls{.calls = 15 + world_.Below(30),
                                               .gap = milliseconds(2 + world_.Below(3)),
                                               .most_cost = 1};
    begin =
        ScheduleBusyCalls(subject, calls, begin) + world_.Between(Duration(0), milliseconds(60));
  }
}

// Half of the trickles and rushes go to one server. Returns the time of the last call.
Duration Schedule::ScheduleBusyCalls(const Subject& subject, const BusyCalls& calls,
                                     Duration begin) {
  const std::uint64_t server = world_.Below(2 * Fleet::kServers);
  for (std::uint64_t i = 0; i < calls.calls; ++i) {
    begin += calls.gap;
    world_.After(begin, [this, server, subject, most_cost = calls.most_cost] {
      const std::uint64_t any = world_.Below(Fleet::kServers);
      MakeBusyCall(server < Fleet::kServers ? server : any, subject, most_cost);
    });
  }
  return begin;
}

void Schedule::MakeBusyCall(std::uint64_t server, const Subject& subject, std::uint64_t most_cost) {
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.server = static_cast<std::int64_t>(server);
  call.caller = &fleet_.CallerOf(call.server);
  call.sent = world_.now();
  call.is_batch = world_.OneIn(20);
  const std::uint64_t n = call.is_batch ? 1 + world_.Below(6) : 1;
  for (std::uint64_t i = 0; i < n; ++i) {
    call.questions.push_back(MakeQuestion(subject, leases_busily_ && world_.OneIn(20)));
    call.questions.back().request.set_cost(1 + world_.Below(most_cost));
  }
  ++report_.calls;
  Send(call, /*may_lack_patience=*/world_.OneIn(20));
}

// A stalled server returns its grants late. A slot may move while servers hold units.
void Schedule::ScheduleStallsAndMoves() {
  for (std::uint64_t n = 1 + world_.Below(5); n > 0; --n) {
    world_.After(world_.Between(Duration(0), kLoad), [this] {
      ++report_.faults;
      world_.OneIn(2) ? fleet_.Stall() : fleet_.MoveSlot();
    });
  }
}

void Schedule::ScheduleResets() {
  for (std::uint64_t n = 1 + world_.Below(2); n > 0; --n) {
    world_.After(world_.Between(Duration(0), kLoad), [this] {
      ++report_.resets;
      fleet_.Reset(rules_.DrawBusySubject());
    });
  }
}

// The clock jumps ahead or back. After a short jump back, the time of a counter stands still until
// the clock has caught up; after a long one, the counter follows the clock.
void Schedule::ScheduleClockJumps() {
  answers_.DistrustClock();
  for (std::uint64_t n = 1 + world_.Below(2); n > 0; --n) {
    const Duration jumps[] = {world_.Between(milliseconds(1), milliseconds(300)),
                              -world_.Between(milliseconds(1), milliseconds(400)),
                              -world_.Between(milliseconds(2000), milliseconds(5000))};
    world_.After(world_.Between(Duration(0), kLoad), [this, by = world_.Pick(jumps)] {
      uses_.Jump(by, fleet_.redis(), WorldClock::TimeAt(world_.now()));
      world_.ShiftRedisClock(by);
      ++report_.faults;
    });
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
  // Drawn once for a batch: if only some checks of a counter take leases, the batch may need
  // several calls in turn.
  const bool leases = MayLease() && world_.OneIn(3);
  for (std::uint64_t i = 0; i < n; ++i) {
    call.questions.push_back(varied || i < 2 ? MakeQuestion(rules_.DrawSubject(), leases)
                                             : call.questions[i % 2]);
  }
  ++report_.calls;
  Send(call, /*may_lack_patience=*/true);
}

Question Schedule::MakeQuestion(const Subject& subject, bool leases) {
  Question question{.subject = subject, .request = {}};
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

void Schedule::Send(Call& call, bool may_lack_patience) {
  const Duration timeouts[] = {Duration(0),     Duration(0),      Duration(1), milliseconds(1),
                               milliseconds(5), milliseconds(20), seconds(1)};
  const Duration timeout = may_lack_patience ? world_.Pick(timeouts) : Duration(0);
  std::string request = call.questions[0].request.SerializeAsString();
  if (call.is_batch) {
    v1::CheckLimitsRequest batch;
    for (const Question& question : call.questions) *batch.add_checks() = question.request;
    request = batch.SerializeAsString();
  }
  answers_.OnSent(call);
  Caller* const caller = call.caller;
  const int number = caller->Call(
      call.is_batch ? "CheckLimits" : "CheckLimit", request, timeout,
      [this, &call](const Caller::Outcome& outcome) { answers_.OnOutcome(call, outcome); });
  if (!may_lack_patience || !world_.OneIn(10)) return;
  world_.After(world_.Between(Duration(0), milliseconds(15)),
               [caller, number] { caller->Cancel(number); });
}

// Some faults occur only at the end of kLoad.
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
    uses_.Allow(charged.counter, charged.limit);
  }
}

void Schedule::OnTakeOver(const Script::Counters& master, const Script::Counters& standby,
                          Deployment::Loss loss) {
  const Time now = WorldClock::TimeAt(world_.now());
  ledger_.TakeOver(master, standby);
  model_.TakeOver(master.by_name, standby.by_name, now);
  uses_.TakeOver(master.by_name, standby.by_name, now);
  for (const auto& [name, counter] : master.by_name) {
    const bool is_reset = loss == Deployment::Loss::kReset && !standby.by_name.contains(name);
    if (is_reset) ledger_.Reset(name);
  }
}

Report Schedule::Run() {
  ScheduleCalls(10 + world_.Below(60), milliseconds(10));
  ScheduleFaults();
  ScheduleReloads();
  if (is_busy_) ScheduleBusyCalls();
  if (is_busy_ && !world_.OneIn(3)) ScheduleStallsAndMoves();
  if (resets_) ScheduleResets();
  if (jumps_) ScheduleClockJumps();
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
                                 .in_flight = fleet_.unknown_units(),
                                 .now = now});
  answers_.JudgeOrder();
  for (const std::string& what : model_.untrue()) report_.broken.push_back(what);
  for (const std::string& what : uses_.Judge(model_)) report_.broken.push_back(what);
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
