// Checks each answer to a caller: its time, its order in a batch, its error, its source, and its
// limits, which must agree with the ledger and the model.
//
// One thread.
#pragma once

#include <sluice/v1/rate_limiter.pb.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/caller.h"
#include "tests/simulation/fleet.h"
#include "tests/simulation/leases.h"
#include "tests/simulation/ledger.h"
#include "tests/simulation/model.h"
#include "tests/simulation/report.h"
#include "tests/simulation/rules.h"
#include "tests/simulation/uses.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

// One check: a separate call, or a part of a batch.
struct Question {
  Subject subject;
  bool peeks = false;
  v1::CheckLimitRequest request;

  // The units of a counter that the check requests or, as a peek, asks about.
  std::int64_t AskedOf(std::string_view counter) const {
    if (!Rules::CountsTokens(counter)) return static_cast<std::int64_t>(request.cost());
    return static_cast<std::int64_t>(request.amounts().at(kTokens));
  }
  // The units of a counter that the check takes if it is admitted.
  std::int64_t TakenOf(std::string_view counter) const { return peeks ? 0 : AskedOf(counter); }
};
struct Call {
  std::int64_t server = 0;
  Caller* caller = nullptr;
  std::vector<Question> questions;
  bool is_batch = false;
  SteadyTime sent;
  bool decided = false;
  bool answered = false;
};

class Answers {
 public:
  struct Context {
    World& world;
    const Rules& rules;
    const Model& model;
    Fleet& fleet;
    Ledger& ledger;
    Uses& uses;
    Report& report;
  };
  // All members of `context` must outlive this object.
  explicit Answers(const Context& context)
      : context_(context),
        leases_({.world = context.world,
                 .fleet = context.fleet,
                 .ledger = context.ledger,
                 .report = context.report}) {}

  void OnSent(const Call& call);
  void OnOutcome(Call& call, const Caller::Outcome& outcome);

  // Checks each counter state that a server remembers: the counter must have been in that state
  // when the server read it.
  void JudgeLearned();

  // At the end.
  void JudgeCall(const Call& call);
  void JudgeOrder();
  void JudgeLeases() { leases_.Judge(); }

  // Redis' clock jumps: from now on, times of its decisions cannot be compared with other times.
  void DistrustClock() { trusts_clock_ = false; }

  // The faults are over: from now on, Redis must decide every call.
  void ExpectHealth() { healthy_since_ = context_.world.now(); }

 private:
  void OnBatch(const Call& call, const v1::CheckLimitsResponse& batch);
  void OnAnswer(const Call& call, const Question& question, const v1::CheckLimitResponse& response);
  void OnAdmitted(const Call& call, const Question& question,
                  const v1::CheckLimitResponse& response);
  std::vector<Charged> PossiblyCharged(const Call& call, const Question& question,
                                       const v1::LimitStatus& status) const;
  void NoteOrder(const Call& call, const v1::CheckLimitsResponse& batch);
  void Deny(const Question& question);
  void MayKeep(const Question& question, const Charged& charged);
  void JudgeGrant(const Question& question);
  void JudgeError(const Call& call, const Question& question, int status);
  void JudgeTime(const Call& call, const Caller::Outcome& outcome);
  Duration AgeOfDenials(const Call& call, std::string_view rule) const;
  void JudgeBounds(const Call& call, const Question& question, const v1::LimitStatus& status);
  void JudgeRemembered(const Call& call, const Question& question, const v1::LimitStatus& status);
  void JudgeLearned(std::int64_t server, const std::string& counter, const std::string& key);
  bool ExpectsHealth(const Call& call) const;
  void Break(std::string what) { context_.report.broken.push_back(std::move(what)); }

  const Context context_;
  Leases leases_;
  SteadyTime healthy_since_ = SteadyTime::max();
  bool trusts_clock_ = true;
  std::vector<const Call*> taking_turns_;
  std::string out_of_order_;  // an endpoint for which checks of one batch were decided out of order
};

}  // namespace sluice::simulation
