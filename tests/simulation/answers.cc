#include "tests/simulation/answers.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "limiter/deny_cache.h"
#include "tests/simulation/sluice_server.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

using std::chrono::milliseconds;

constexpr auto kRedisTimeout = SluiceServer::kRedisTimeout;

Duration ToDuration(const google::protobuf::Duration& value) {
  return std::chrono::seconds(value.seconds()) + Duration(value.nanos() / 1000);
}

}  // namespace

void Answers::OnSent(const Call& call) {
  const auto leased = std::count_if(call.questions.begin(), call.questions.end(),
                                    [](const auto& it) { return it.request.has_lease_ttl(); });
  if (leased > 0 && leased < std::ssize(call.questions)) taking_turns_.push_back(&call);
}

void Answers::OnOutcome(Call& call, const Caller::Outcome& outcome) {
  if (std::exchange(call.decided, true)) return Break("a call was answered twice");
  Report& report = context_.report;
  report.history += fmt::format("{} {} {}\n", outcome.at.time_since_epoch().count(),
                                call.questions.size(), outcome.status);
  if (outcome.status < 0) {
    ++report.unanswered;
    return;
  }
  call.answered = true;
  ++report.answers;
  JudgeTime(call, outcome);
  if (outcome.status != 0) {
    for (const Question& question : call.questions) JudgeError(call, question, outcome.status);
    return;
  }
  if (!call.is_batch) {
    v1::CheckLimitResponse response;
    test::Require(response.ParseFromString(outcome.response), "an answer is not a valid message");
    return OnAnswer(call, call.questions[0], response);
  }
  v1::CheckLimitsResponse batch;
  test::Require(batch.ParseFromString(outcome.response), "an answer is not a valid message");
  OnBatch(call, batch);
}

void Answers::OnBatch(const Call& call, const v1::CheckLimitsResponse& batch) {
  if (batch.results_size() != static_cast<int>(call.questions.size())) {
    return Break("a batch does not have as many answers as checks");
  }
  for (int i = 0; i < batch.results_size(); ++i) {
    const auto& result = batch.results(i);
    const Question& question = call.questions[static_cast<std::size_t>(i)];
    if (result.has_error()) {
      JudgeError(call, question, result.error().code());
    } else {
      OnAnswer(call, question, result.response());
    }
  }
  NoteOrder(call, batch);
}

// If checks of a batch have the same counters, the store decides them in the order of the batch.
void Answers::NoteOrder(const Call& call, const v1::CheckLimitsResponse& batch) {
  std::map<std::string, std::int64_t> latest;
  for (int i = 0; i < batch.results_size(); ++i) {
    const v1::CheckLimitResponse& response = batch.results(i).response();
    if (batch.results(i).has_error() || response.source() != v1::SOURCE_STORE) continue;
    const Subject& subject = call.questions[static_cast<std::size_t>(i)].subject;
    const auto& at = response.decided_at();
    const std::int64_t time = at.seconds() * 1'000'000'000 + at.nanos();
    std::int64_t& before =
        latest[fmt::format("{} {} {}", subject.endpoint, subject.user, subject.team)];
    if (time < before) out_of_order_ = subject.endpoint;
    before = time;
  }
}

// If slots got a new owner twice, a later check may be decided before an earlier one.
void Answers::JudgeOrder() {
  const Deployment& redis = context_.fleet.redis();
  if (out_of_order_.empty() || !trusts_clock_ || redis.moved_slots() + redis.failovers() >= 2)
    return;
  Break(fmt::format("checks of {} were decided out of order", out_of_order_));
}

// DEADLINE_EXCEEDED is always permitted. UNAVAILABLE is permitted if Redis may be failing and the
// rules have `on_store_failure: error`.
void Answers::JudgeError(const Call& call, const Question& question, int status) {
  ++context_.report.errors;
  const bool unavailable = status == 14 && context_.rules.policy() == OnStoreFailure::kError;
  if (status == 4 || (unavailable && !ExpectsHealth(call))) {
    if (unavailable) return Deny(question);
    for (const Charged& charged : context_.rules.ChargedInAny(question.subject)) {
      context_.ledger.Doubt(charged.counter, question.TakenOf(charged.counter));
    }
    return;
  }
  Break(fmt::format("{} was answered with status {}", question.subject.endpoint, status));
}

// An answer takes at most 2 * `redis.timeout` + 5 ms, not counting the time of the network and the
// time for which servers were stalled. The second `redis.timeout` passes only if the loop was late.
void Answers::JudgeTime(const Call& call, const Caller::Outcome& outcome) {
  const Fleet& fleet = context_.fleet;
  const auto took = std::chrono::ceil<Duration>(outcome.at - call.sent);
  const Duration late = took - fleet.network_time() - fleet.stalls();
  context_.report.slowest = std::max(context_.report.slowest, late);
  if (late > 2 * kRedisTimeout + milliseconds(5)) {
    Break(fmt::format("a call was answered after {} µs", took.count()));
  }
}

void Answers::OnAnswer(const Call& call, const Question& question,
                       const v1::CheckLimitResponse& response) {
  if (response.source() == v1::SOURCE_FALLBACK && ExpectsHealth(call)) {
    Break(fmt::format("{} was decided by fallback, long after the last fault",
                      question.subject.endpoint));
  }
  for (const v1::LimitStatus& status : response.limits()) JudgeBounds(call, question, status);
  if (response.decision() != v1::DECISION_DENIED) return OnAdmitted(call, question, response);
  ++context_.report.denied;
  if (response.source() == v1::SOURCE_DENY_CACHE) ++context_.report.denied_by_cache;
  Deny(question);
  for (const v1::LimitStatus& status : response.limits()) {
    const bool is_known = status.source() == v1::SOURCE_DENY_CACHE && trusts_clock_;
    if (is_known) JudgeRemembered(call, question, status);
  }
}

void Answers::Deny(const Question& question) {
  for (const Charged& charged : context_.rules.ChargedInAny(question.subject)) {
    context_.ledger.Deny(charged.counter, question.TakenOf(charged.counter));
    MayKeep(question, charged);
  }
}

// Regardless of the answer to the caller, the store may have admitted the check or a part of it. If
// the check takes a lease, that lease is then settled with 0. A limit that does not refund in full
// may keep the units.
void Answers::MayKeep(const Question& question, const Charged& charged) {
  if (!question.request.has_lease_ttl() || RefundsInFull(charged.limit)) return;
  context_.ledger.Keep(charged.counter, question.TakenOf(charged.counter));
}

// If the rules changed while the call was under way, it may be unknown which counter was charged.
void Answers::OnAdmitted(const Call& call, const Question& question,
                         const v1::CheckLimitResponse& response) {
  const bool by_grant = response.source() == v1::SOURCE_GRANT;
  if (by_grant) JudgeGrant(question);
  const bool by_store = by_grant || response.source() == v1::SOURCE_STORE;
  const bool is_used = by_store && !question.request.has_lease_ttl();  // a lease may return units
  const Uses::Interval meanwhile{.begin = WorldClock::TimeAt(call.sent),
                                 .end = WorldClock::TimeAt(context_.world.now())};
  Report& report = context_.report;
  TakenLease lease{.id = response.lease().id(),
                   .of_units = question.request.has_lease_ttl(),
                   .ttl = ToDuration(response.lease().ttl()),
                   .server = call.server,
                   .asked = call.sent,
                   .limits = {}};
  for (const v1::LimitStatus& status : response.limits()) {
    const std::vector<Charged> possible = PossiblyCharged(call, question, status);
    std::set<std::string> counters;
    for (const Charged& charged : possible) {
      counters.insert(charged.counter);
      if (!by_store) MayKeep(question, charged);
    }
    const bool known = counters.size() == 1;
    for (const std::string& counter : counters) {
      const std::int64_t units = question.TakenOf(counter);
      (by_store ? report.admitted_by_store : report.admitted_by_fallback) += units;
      if (by_grant) report.admitted_by_grant += units;
      if (is_used && known) context_.uses.Use(counter, units, meanwhile);
      known ? context_.ledger.Admit(counter, units, by_store)
            : context_.ledger.Doubt(counter, units);
    }
    lease.limits.push_back({.counters = {counters.begin(), counters.end()},
                            .units = question.TakenOf(*counters.begin()),
                            .limit = possible.front().limit,
                            .in_store = status.source() == v1::SOURCE_STORE,
                            .counted_by_store = by_store});
  }
  if (response.has_lease()) leases_.OnTaken(std::move(lease));
}

// A grant may decide a check if all its limits are prefetched and the check takes no lease.
void Answers::JudgeGrant(const Question& question) {
  const bool may = Rules::MayPrefetch(question.subject.endpoint);
  if (may && !question.request.has_lease_ttl()) return;
  Break(fmt::format("{} was decided by a grant", question.subject.endpoint));
}

// The counters that a limit in an answer may have charged, under any version of the rules that the
// server has had since the call was sent.
std::vector<Charged> Answers::PossiblyCharged(const Call& call, const Question& question,
                                              const v1::LimitStatus& status) const {
  std::vector<Charged> possible;
  for (const int version : context_.fleet.VersionsSince(call.server, call.sent)) {
    const auto charged =
        context_.rules.ChargedBy(version, status.rule(), status.index(), question.subject);
    if (charged) possible.push_back(*charged);
  }
  return possible;
}

void Answers::JudgeBounds(const Call& call, const Question& question,
                          const v1::LimitStatus& status) {
  if (status.source() != v1::SOURCE_STORE) return;
  const auto possible = PossiblyCharged(call, question, status);
  const auto limit = static_cast<std::int64_t>(status.limit());
  const bool is_possible = std::any_of(possible.begin(), possible.end(), [&](const Charged& it) {
    return Rules::IsWithinBounds(it.limit, limit);
  });
  if (is_possible) return;
  Break(
      fmt::format("{}: an answer shows an impossible limit: {}", question.subject.endpoint, limit));
}

// The longest time for which the server may have remembered denials of the rule.
Duration Answers::AgeOfDenials(const Call& call, std::string_view rule) const {
  Duration age{};
  for (const int version : context_.fleet.VersionsSince(call.server, call.sent)) {
    const Duration life =
        context_.rules.PrefetchOf(version, rule, static_cast<std::size_t>(call.server));
    age = std::max(age, life > Duration() ? life : DenyCache::kMaxAge);
  }
  return age;
}

// A denial that a server remembers is right, with two exceptions: another server gave units back,
// or the server itself settled a lease and has not read the reply yet.
void Answers::JudgeRemembered(const Call& call, const Question& question,
                              const v1::LimitStatus& status) {
  const Model::Period period{.begin = WorldClock::TimeAt(call.sent),
                             .end = WorldClock::TimeAt(context_.world.now())};
  const Model::Period known{.begin = period.begin - AgeOfDenials(call, status.rule()),
                            .end = period.end};
  const Model::Period unread{
      .begin = period.begin - context_.fleet.network_time() - context_.fleet.stalls(),
      .end = period.end};
  const Model& model = context_.model;
  const bool crashed = context_.fleet.CrashesOf(call.server) > 0;  // another process may answer
  const int server = crashed ? Model::kEnded : static_cast<int>(call.server);
  const std::vector<Charged> possible = PossiblyCharged(call, question, status);
  const bool is_true = std::any_of(possible.begin(), possible.end(), [&](const Charged& charged) {
    const CounterDemand demand{{}, question.AskedOf(charged.counter)};
    return model.Denies(charged.counter, charged.limit, demand, period) ||
           model.OthersGaveBack(charged.counter, charged.limit, server, known) ||
           model.Settled(charged.counter, server, unread);
  });
  if (is_true) return;
  Break(fmt::format("{}: the deny cache denied {} units that are free", possible.front().counter,
                    question.AskedOf(possible.front().counter)));
}

void Answers::JudgeLearned() {
  if (!trusts_clock_) return;
  for (const auto& [counter, changes] : context_.model.changes()) {
    for (std::int64_t server = 0; server < Fleet::kServers; ++server) {
      JudgeLearned(server, counter, changes.back().key);
    }
  }
}

// The server may have read the counter under any version of its limit. If Redis made changes at the
// time of that read, the server may have read before or after each of them.
void Answers::JudgeLearned(std::int64_t server, const std::string& counter,
                           const std::string& key) {
  const auto seen = context_.fleet.Seen(server, key);
  if (!seen) return;
  const std::vector<Limit> limits = context_.rules.LimitsOf(counter);
  for (const Limit& limit : limits) {
    // In an outage, a warming bucket is deliberately made as cold as possible.
    if (std::holds_alternative<WarmingBucket>(limit)) continue;
    if (AdaptationOf(limit) != nullptr) continue;  // the model does not record changes of slots
    std::int64_t least = kMaxProduct;
    std::int64_t most = 0;
    for (const CounterState& state : context_.model.StatesAt(counter, limit, seen->at)) {
      for (const Limit& seen_under : limits) {
        CounterState read = state;
        Advance(seen_under, read, seen->at);
        ForgetGrants(read);  // servers do not remember grants
        least = std::min(least, FreeIn(limit, read, seen->at));
        most = std::max(most, FreeIn(limit, read, seen->at));
      }
    }
    const std::int64_t learned = FreeIn(limit, Seed(limit, *seen, Share::Whole()), seen->at);
    if (least <= learned && learned <= most) continue;
    Break(fmt::format("{}: server {} has learned that {} are free, rather than {} to {}", counter,
                      server, learned, least, most));
  }
}

// Whether Redis must decide the call, because the last fault is long over. There are exceptions. If
// only some checks of a batch take leases, the batch may need several calls to a cluster, one after
// the other, and other checks wait behind it. If Redis' clock jumps back, a grace period may seem
// to begin again. If bytes arrive one by one, Redis may seem too slow.
bool Answers::ExpectsHealth(const Call& call) const {
  const Duration wait = 2 * kRedisTimeout + context_.fleet.network_time();
  const bool waits_long =
      std::any_of(taking_turns_.begin(), taking_turns_.end(), [&](const Call* batch) {
        return batch->server == call.server && std::chrono::abs(batch->sent - call.sent) < wait;
      });
  const bool is_over = call.sent >= healthy_since_ && trusts_clock_;
  return is_over && !waits_long && !context_.fleet.is_slow();
}

void Answers::JudgeCall(const Call& call) {
  if (!call.decided) Break("a call never ended");
  if (call.answered) return;
  for (const Question& question : call.questions) {
    for (const Charged& charged : context_.rules.ChargedInAny(question.subject)) {
      context_.ledger.Doubt(charged.counter, question.TakenOf(charged.counter));
      MayKeep(question, charged);
      if (!call.caller->connected())
        context_.ledger.Lose(charged.counter, question.TakenOf(charged.counter));
    }
  }
}

}  // namespace sluice::simulation
