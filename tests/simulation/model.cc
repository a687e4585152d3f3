#include "tests/simulation/model.h"

#include <algorithm>
#include <memory>

namespace sluice::simulation {
namespace {

bool Admits(const Limit& limit, CounterState state, const CounterDemand& demand, Time now) {
  Advance(limit, state, now);
  return Grants(limit, state, demand, 1) > 0;
}

// Whether a copy of a counter has all charges and all refunds of the counter.
bool HasAll(const TrueCounter& counter, const TrueCounter& copy) {
  return copy.charged == counter.charged && copy.given_back == counter.given_back &&
         copy.charged_on_top == counter.charged_on_top;
}

}  // namespace

void Model::Record(const std::string& counter, Change change) {
  change.state = CopyOf(change.state, {});
  changes_[counter].push_back(std::move(change));
}

bool Model::Denies(const std::string& counter, const Limit& limit, const CounterDemand& demand,
                   const Period& period) const {
  CounterState fresh;
  Open(limit, fresh, period.begin);
  const CounterState* at_begin = &fresh;
  const auto changes = changes_.find(counter);
  if (changes != changes_.end()) {
    for (const Change& change : changes->second) {
      if (change.at <= period.begin) {
        at_begin = &change.state;
      } else if (change.at <= period.end && !Admits(limit, change.state, demand, change.at)) {
        return true;
      }
    }
  }
  return !Admits(limit, *at_begin, demand, period.begin);
}

bool Model::OthersGaveBack(const std::string& counter, const Limit& limit, int server,
                           const Period& period) const {
  const auto changes = changes_.find(counter);
  return changes != changes_.end() &&
         std::any_of(changes->second.begin(), changes->second.end(), [&](const Change& change) {
           const bool gave_back = change.gives_back && change.server != server;
           return (gave_back || change.limit != limit) && change.at >= period.begin &&
                  change.at <= period.end;
         });
}

bool Model::Settled(const std::string& counter, int server, const Period& period) const {
  const auto changes = changes_.find(counter);
  return changes != changes_.end() &&
         std::any_of(changes->second.begin(), changes->second.end(), [&](const Change& change) {
           return change.settles && change.server == server && change.at >= period.begin &&
                  change.at <= period.end;
         });
}

void Model::TakeOver(const TrueCounters& master, const TrueCounters& standby, Time now) {
  for (const auto& [name, lost] : master) {
    const auto kept = standby.find(name);
    const bool has_all = HasAll(lost, kept == standby.end() ? TrueCounter() : kept->second);
    Change change{.at = now, .key = lost.key, .limit = lost.limit, .gives_back = !has_all};
    change.opens = kept == standby.end();
    if (kept != standby.end()) {
      change.state = kept->second.state;
    } else {
      Open(lost.limit, change.state, now);
    }
    Record(name, std::move(change));
  }
  // A reset that the standby had not received is lost.
  for (const auto& [name, kept] : standby) {
    if (master.contains(name)) continue;
    Record(name, {.at = now, .key = kept.key, .limit = kept.limit, .state = kept.state});
  }
}

std::vector<CounterState> Model::StatesAt(const std::string& counter, const Limit& limit,
                                          Time at) const {
  std::vector<CounterState> states(1);
  Open(limit, states.front(), at);
  const auto changes = changes_.find(counter);
  if (changes == changes_.end()) return states;
  for (const Change& change : changes->second) {
    if (change.at > at) break;
    if (change.at < at) states.clear();
    states.push_back(change.state);
    if (change.opens) Open(limit, states.back(), change.at);
  }
  return states;
}

std::int64_t FreeIn(const Limit& limit, CounterState state, Time now) {
  Advance(limit, state, now);
  return Grants(limit, state, {{.mode = Mode::kPeek}, 1}, kMaxProduct);
}

void ForgetGrants(CounterState& state) {
  std::visit(
      [](auto& own) {
        if constexpr (requires { own.grants; }) own.grants = {};
      },
      state);
}

CounterState CopyOf(const CounterState& state, const std::set<LeaseId>& leases) {
  CounterState copy = state;
  if (auto* const slots = std::get_if<Concurrency::State>(&copy)) {
    const auto holders = std::exchange(slots->holders, std::make_shared<Holders>());
    for (const LeaseId& lease : leases) {
      if (const Holder* const holder = holders->Find(lease)) slots->holders->Set(lease, *holder);
    }
  } else if (auto* const log = std::get_if<SlidingLog::State>(&copy)) {
    log->log = std::make_shared<std::deque<SlidingLog::Entry>>(*log->log);
  }
  return copy;
}

}  // namespace sluice::simulation
