#include "tests/simulation/script_decider.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/simulation/rules.h"

namespace sluice::simulation {
namespace {

using std::chrono::seconds;

// A fault: a bucket refills as if no units were out. Units whose grant has ended stay out until the
// refill is done.
void RefillPockets(const Limit& limit, CounterState& state, Time now) {
  auto* const bucket = std::get_if<TokenBucket::State>(&state);
  if (bucket == nullptr) return static_cast<void>(Advance(limit, state, now));
  const GrantsOut out = std::exchange(bucket->grants, {});
  Advance(limit, state, now);
  bucket->grants = out;
  while (bucket->grants.any() && bucket->grants.older_ends <= now) bucket->grants.EndOlder();
}

bool IsOfDesign(Planted planted) {
  return planted == Planted::kPocketsRefilled || planted == Planted::kPocketsUnseen ||
         planted == Planted::kLateReturnsTaken || planted == Planted::kReturnsCountedTwice;
}

// A fault: slots that have expired are removed before a check can remove them and learn from them.
void ForgetExpired(std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    auto* const slots = std::get_if<Concurrency::State>(&draft.state);
    if (slots != nullptr) slots->holders->RemoveExpired(slots->now, Concurrency::kMaxLimit);
  }
}

// Whether slots have learned exactly the same in both drafts. True for other counters.
bool HaveLearnedAlike(const Draft& a, const Draft& b) {
  const auto* const slots = std::get_if<Concurrency::State>(&a.state);
  return slots == nullptr || slots->learned == std::get<Concurrency::State>(b.state).learned;
}

// For slots, the limit in force; for other counters, 0.
std::vector<std::int64_t> LimitsInForce(const std::vector<Draft>& drafts) {
  std::vector<std::int64_t> limits;
  for (const Draft& draft : drafts) {
    const auto* const slots = std::get_if<Concurrency>(draft.limit);
    limits.push_back(slots ? slots->LimitNow(std::get<Concurrency::State>(draft.state)) : 0);
  }
  return limits;
}

}  // namespace

template <typename ByName>
void Script::Decider::Read(const ByName& counters, const Check& check,
                           std::vector<Draft>& drafts) const {
  const bool refills_pockets =
      call_.planted == Planted::kPocketsRefilled ||
      (call_.planted == Planted::kPocketsUnseen && !check.asked.concerns_grants);
  for (Draft& draft : drafts) {
    const auto stored = counters.find(draft.name);
    draft.found = stored != counters.end();
    if (!draft.found) {
      Open(*draft.limit, draft.state, call_.now);
      draft.stored = draft.state;
      continue;
    }
    draft.state = draft.stored = stored->second.state;
    const std::int64_t out = GrantsOutOf(*draft.limit, draft.state).units();
    if (refills_pockets) {
      RefillPockets(*draft.limit, draft.state, call_.now);
    } else {
      Advance(*draft.limit, draft.state, call_.now);
    }
    draft.ended = out - GrantsOutOf(*draft.limit, draft.state).units();
  }
}

std::vector<double> Script::Decider::Decide(const Check& check, std::vector<Draft> drafts) {
  std::vector<Draft> true_drafts = drafts;
  for (Draft& draft : true_drafts) {
    const std::string key = draft.name;
    if (model_ != nullptr) draft.name = model_->NameOfCounter(*draft.limit, key);
    Expire(key, draft);
  }
  if (call_.planted == Planted::kBoundsKept) KeepBounds(drafts);
  Read(counters_.by_key, check, drafts);
  if (call_.planted == Planted::kStatesMisread) Misread(drafts);
  if (call_.planted == Planted::kExpiryUnlearned) ForgetExpired(drafts);
  const std::vector<std::int64_t> limits = LimitsInForce(drafts);
  Read(counters_.by_name, check, true_drafts);
  const std::vector<double> decided =
      simulation::Decide(check, drafts, counters_.records, call_.planted);
  // Faults of the design are planted in both decisions, which then agree. Only the use of units
  // shows these faults.
  const Planted in_design = IsOfDesign(call_.planted) ? call_.planted : Planted::kNothing;
  const std::vector<double> expected =
      simulation::Decide(check, true_drafts, counters_.true_records, in_design);
  const bool is_true = decided == expected && std::equal(drafts.begin(), drafts.end(),
                                                         true_drafts.begin(), HaveLearnedAlike);
  if (!is_true && model_ != nullptr) {
    model_->RecordUntrue(fmt::format("{}: Redis replied {}, and should have replied {}",
                                     true_drafts.front().name, fmt::join(decided, " "),
                                     fmt::join(expected, " ")));
    Follow(drafts, true_drafts);
  }
  JudgeSlots(check, limits, drafts);
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const bool written = Write(drafts[i]);
    WriteTrue(true_drafts[i], drafts[i].name, check.asked.demand.mode, written);
  }
  return decided;
}

// If a key has expired and no check depends on its counter any longer, the true counter may start
// again.
void Script::Decider::Expire(const std::string& key, const Draft& true_draft) {
  const auto stored = counters_.by_key.find(key);
  if (stored != counters_.by_key.end()) {
    if (stored->second.expires > call_.now) return;
    counters_.by_key.erase(stored);
  }
  const auto found = counters_.by_name.find(true_draft.name);
  if (found == counters_.by_name.end() || found->second.matters_until > call_.now) return;
  found->second.ended += GrantsOutOf(*true_draft.limit, found->second.state).units();
  Open(*true_draft.limit, found->second.state, call_.now);
  if (model_ == nullptr || std::holds_alternative<Concurrency>(*true_draft.limit)) return;
  model_->Record(true_draft.name, {.at = call_.now,
                                   .key = key,
                                   .limit = *true_draft.limit,
                                   .state = found->second.state,
                                   .gives_back = true,
                                   .opens = true});
}

void Script::Decider::KeepBounds(std::vector<Draft>& drafts) const {
  for (Draft& draft : drafts) {
    const auto stored = counters_.by_key.find(draft.name);
    if (stored == counters_.by_key.end() || AdaptationOf(*draft.limit) == nullptr) continue;
    if (AdaptationOf(stored->second.limit) != nullptr) draft.limit = &stored->second.limit;
  }
}

// `limits`: the limits in force before the check.
void Script::Decider::JudgeSlots(const Check& check, const std::vector<std::int64_t>& limits,
                                 const std::vector<Draft>& drafts) const {
  for (std::size_t i = 0; i < drafts.size() && model_ != nullptr; ++i) {
    const auto* const slots = std::get_if<Concurrency::State>(&drafts[i].state);
    if (slots == nullptr) continue;
    const bool took = check.asked.demand.mode == Mode::kConsume && drafts[i].changed;
    if (took && slots->counted > limits[i]) {
      model_->RecordUntrue(fmt::format("{}: {} of {} slots are held after an admission",
                                       drafts[i].name, slots->counted, limits[i]));
    }
    if (!Rules::IsWithinBounds(*drafts[i].limit, limits[i])) {
      model_->RecordUntrue(fmt::format("{}: the limit in force, {}, is outside its bounds",
                                       drafts[i].name, limits[i]));
    }
  }
}

void Script::Decider::Misread(std::vector<Draft>& drafts) const {
  for (Draft& draft : drafts) {
    if (draft.found && counters_.by_key.at(draft.name).limit != *draft.limit) {
      Open(*draft.limit, draft.state, call_.now);
    }
  }
}

// Continues from the wrong decision, so that only further faults are reported.
void Script::Decider::Follow(const std::vector<Draft>& drafts, std::vector<Draft>& true_drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const std::string name = std::move(true_drafts[i].name);
    true_drafts[i] = drafts[i];
    true_drafts[i].state = CopyOf(drafts[i].state, counters_.leases);
    true_drafts[i].name = name;
    true_drafts[i].found = counters_.by_name.contains(name);
  }
}

// A check that finds a counter and does not change it prolongs the life of the counter's key, if
// necessary.
bool Script::Decider::Write(const Draft& draft) {
  const Time matters_until = call_.now + Lifetime(*draft.limit, draft.state, call_.now);
  const auto stored = counters_.by_key.find(draft.name);
  const bool fresh = stored == counters_.by_key.end();
  const bool is_of_this_call = !fresh && stored->second.expires == Time::max();
  const bool prolongs = !fresh && call_.planted != Planted::kKeysExpireEarly &&
                        (is_of_this_call || matters_until > stored->second.expires - seconds(1));
  if (!draft.changed && !prolongs) return false;
  const Time expires = fresh ? Time::max() : stored->second.expires;  // until SetExpiries
  counters_.by_key.insert_or_assign(draft.name, Counter{*draft.limit, draft.state, expires});
  Time& until = matter_until_[draft.name];
  until = std::max(until, matters_until);
  return true;
}

void Script::Decider::WriteTrue(const Draft& draft, const std::string& key, Mode mode,
                                bool written) {
  Time matters_until = call_.now + Lifetime(*draft.limit, draft.state, call_.now);
  if (!draft.changed && !draft.found) return;
  TrueCounter& counter = counters_.by_name[draft.name];
  if (!draft.changed) matters_until = std::max(matters_until, counter.matters_until);
  counter.matters_until = matters_until;
  counter.charged += draft.charged;
  counter.given_back += draft.given_back;
  counter.charged_on_top += draft.charged_on_top;
  if (!draft.changed && !written) return;
  counter.granted += draft.granted;
  counter.ended += draft.ended;
  counter.key = key;
  counter.limit = *draft.limit;
  counter.state = draft.state;
  if (model_ == nullptr || std::holds_alternative<Concurrency>(*draft.limit)) return;
  model_->Record(draft.name,
                 {.at = call_.now,
                  .server = call_.server,
                  .key = key,
                  .limit = *draft.limit,
                  .state = draft.state,
                  .gives_back = mode == Mode::kUndo || mode == Mode::kSettle || draft.took_back,
                  .settles = mode == Mode::kSettle || draft.took_back,
                  .undone = draft.undone});
}

// As in check.lua: a key that is written again gets a longer life than required. If a key already
// lives long enough, only its value is written.
void Script::Decider::SetExpiries() {
  const auto second = std::chrono::floor<seconds>(call_.now);
  for (const auto& [key, until] : matter_until_) {
    Counter& counter = counters_.by_key.at(key);
    auto lives = std::chrono::ceil<seconds>(until - call_.now) + seconds(1);
    if (counter.expires != Time::max()) {
      if (std::chrono::floor<seconds>(counter.expires) - second > lives) continue;
      lives += std::max<seconds>(seconds(10), lives / 4);
    }
    counter.expires = call_.now + lives;
  }
}

}  // namespace sluice::simulation
