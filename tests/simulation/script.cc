#include "tests/simulation/script.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/redis/script_call.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

using std::chrono::seconds;

constexpr double kVersion = 9;

std::vector<double> Unpack(std::string_view bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  return numbers;
}

// Reads numbers one after another.
class Reader {
 public:
  explicit Reader(std::vector<double> numbers) : numbers_(std::move(numbers)) {}

  double Number() {
    test::Require(at_ < numbers_.size(), "a call of the check script ends too early");
    return numbers_[at_++];
  }
  // `number`: the next to be read, from 1.
  void MoveTo(std::size_t number) { at_ = number - 1; }
  std::int64_t Integer() { return static_cast<std::int64_t>(Number()); }
  std::size_t Index() { return static_cast<std::size_t>(Number()); }
  std::vector<double> Numbers(std::size_t n) {
    std::vector<double> some;
    for (std::size_t i = 0; i < n; ++i) some.push_back(Number());
    return some;
  }

 private:
  const std::vector<double> numbers_;
  std::size_t at_ = 0;
};

// A limit in a call: the number of the algorithm, the number of parameters, the parameters.
std::vector<double> ReadLimit(Reader& reader) {
  std::vector<double> name{reader.Number(), reader.Number()};
  for (const double parameter : reader.Numbers(static_cast<std::size_t>(name[1]))) {
    name.push_back(parameter);
  }
  return name;
}

struct Asked {
  Demand demand;
  bool leased = false;
  std::vector<std::pair<std::size_t, std::int64_t>> counters;  // limit, group
};

Asked ReadAsked(Reader& reader) {
  Asked asked;
  asked.demand.mode = static_cast<Mode>(reader.Integer());
  const double time = reader.Number();
  if (asked.demand.mode == Mode::kRefund) {
    if (time >= 0) asked.demand.charged_at = Time(Duration(static_cast<std::int64_t>(time)));
  } else if (time != -1) {
    asked.demand.only_delays = time < 0;
    asked.demand.max_wait = Duration(static_cast<std::int64_t>(time < 0 ? -2 - time : time));
  }
  asked.leased = reader.Integer() == 1;
  asked.counters.resize(reader.Index());
  for (auto& [limit, group] : asked.counters) {
    limit = reader.Index() - 1;
    group = reader.Integer();
  }
  return asked;
}

Lease ReadLease(std::string_view bytes) {
  Lease lease;
  std::memcpy(lease.id.data(), bytes.data(), lease.id.size());
  lease.ttl = Duration(static_cast<std::int64_t>(Unpack(bytes.substr(lease.id.size()))[0]));
  return lease;
}

// One counter of one check.
struct Draft {
  const Limit* limit;
  std::int64_t group;
  std::string name;  // its key, or what it counts
  std::int64_t units = 0;
  CounterState state;
  bool found = false;  // otherwise the counter is new
  bool changed = false;
  std::int64_t charged = 0;  // units, less those undone
};

struct Check {
  const Asked& asked;
  Time now;
  std::optional<Lease> lease{};
  std::int64_t n = 1;
  std::vector<std::vector<double>> records{};  // of an undo, by counter

  CoalescedChecks Of(const Draft& draft, std::int64_t granted = 0) const {
    return {.demand = {asked.demand, draft.units}, .lease = lease, .granted = granted, .now = now};
  }
};

template <typename Counters>
void Read(const Counters& counters, Time now, std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    const auto stored = counters.find(draft.name);
    draft.found = stored != counters.end();
    if (draft.found) {
      draft.state = stored->second.state;
      Advance(*draft.limit, draft.state, now);
    } else {
      Open(*draft.limit, draft.state, now);
    }
  }
}

void Append(const CounterSnapshot& snapshot, std::vector<double>& out) {
  for (const double field : FieldsOf(snapshot)) out.push_back(field);
}

// Writes for each group its grants and the snapshots.
void DecideGroups(const Check& check, std::vector<Draft>& drafts, std::vector<double>& out) {
  const bool peeks = check.asked.demand.mode == Mode::kPeek;
  std::int64_t allowed = check.n;
  for (std::size_t begin = 0, end = 0; begin < drafts.size(); begin = end) {
    std::int64_t granted = peeks ? std::min<std::int64_t>(allowed, 1) : allowed;
    for (; end < drafts.size() && drafts[end].group == drafts[begin].group; ++end) {
      const CounterDemand demand = check.Of(drafts[end]).demand;
      granted = Grants(*drafts[end].limit, drafts[end].state, demand, granted);
    }
    if (peeks) granted *= allowed;
    if (drafts[begin].group == 0) allowed = granted;
    out.push_back(static_cast<double>(granted));
    for (std::size_t i = begin; i < end; ++i) {
      Draft& draft = drafts[i];
      const CoalescedChecks checks = check.Of(draft, granted);
      Append(Summarize(*draft.limit, draft.state, checks), out);
      if (peeks || granted == 0 || draft.units == 0) continue;
      Take(*draft.limit, draft.state, checks);
      draft.changed = true;
      draft.charged = granted * draft.units;
    }
  }
}

// The same for n charges of one counter, as if made one after another.
void DecideCharges(const Check& check, Draft& draft, std::vector<double>& out) {
  const CoalescedChecks checks = check.Of(draft);
  out.push_back(static_cast<double>(Grants(*draft.limit, draft.state, checks.demand, check.n)));
  Append(Summarize(*draft.limit, draft.state, checks), out);
  for (std::int64_t i = 0; i < check.n; ++i) {
    const ChangeResult done = Change(*draft.limit, draft.state, checks);
    draft.changed |= done.changed;
    draft.charged += draft.units - done.dropped;
  }
}

// Applies any other mode to one counter.
ChangeResult DecideChange(const Check& check, std::size_t index, bool all_admit, Draft& draft) {
  const CoalescedChecks checks = check.Of(draft);
  ChangeResult done{.changed = false};
  if (checks.demand.mode == Mode::kUndo) {
    const std::vector<double>& record = check.records[index];
    done = Undo(*draft.limit, draft.state,
                SnapshotFromFields(*draft.limit, {record[0], record[1], record[2]}), checks);
    draft.charged = done.dropped - draft.units;  // even if they have left by now
  } else if (checks.demand.mode != Mode::kRenew || all_admit) {
    done = Change(*draft.limit, draft.state, checks);
    if (checks.demand.mode == Mode::kCharge) draft.charged = draft.units - done.dropped;
  }
  draft.changed = done.changed;
  return done;
}

void DecideChanges(const Check& check, std::vector<Draft>& drafts, std::vector<double>& out) {
  std::map<std::int64_t, bool> group_admits;
  std::vector<bool> admitted;
  bool all_admit = true;
  for (const Draft& draft : drafts) {
    admitted.push_back(Admits(*draft.limit, draft.state, check.Of(draft)));
    const auto group = group_admits.emplace(draft.group, true).first;
    group->second = group->second && admitted.back();
    all_admit = all_admit && (admitted.back() || draft.group > 0);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    const ChangeResult done = DecideChange(check, i, all_admit, draft);
    if (i == 0 || drafts[i - 1].group != draft.group) {
      out.push_back(group_admits[draft.group] ? 1 : 0);
    }
    out.push_back(admitted[i] ? 1 : 0);
    out.push_back(static_cast<double>(done.dropped));
    Append(Summarize(*draft.limit, draft.state, check.Of(draft)), out);
  }
}

// Returns the numbers of the reply.
std::vector<double> Decide(const Check& check, std::vector<Draft>& drafts) {
  std::vector<double> out;
  const Asked& asked = check.asked;
  const bool is_charge = asked.demand.mode == Mode::kCharge && !asked.leased &&
                         drafts.size() == 1 &&
                         std::holds_alternative<FixedWindow>(*drafts.front().limit);
  if (is_charge) {
    DecideCharges(check, drafts.front(), out);
  } else if (asked.demand.consumes_or_peeks()) {
    DecideGroups(check, drafts, out);
  } else {
    DecideChanges(check, drafts, out);
  }
  return out;
}

}  // namespace

// Decides the checks of one call.
class Script::Decider {
 public:
  Decider(Model* model, const Call& call, Counters& counters)
      : model_(model), call_(call), counters_(counters) {}

  // Decides by the counters under the keys, and by the true counters. Returns the numbers of the
  // reply.
  std::vector<double> Decide(const Check& check, std::vector<Draft> drafts);

  // At the end of the call.
  void SetExpiries();

 private:
  void Expire(const std::string& key, const Draft& true_draft);
  void Misread(std::vector<Draft>& drafts) const;
  void Follow(const std::vector<Draft>& drafts, std::vector<Draft>& true_drafts);
  bool Write(const Draft& draft);
  void WriteTrue(const Draft& draft, const std::string& key, Mode mode, bool written);

  Model* const model_;
  const Call& call_;
  Counters& counters_;
  std::map<std::string, Time> matter_until_;  // by key, of the counters that were written
};

std::vector<double> Script::Decider::Decide(const Check& check, std::vector<Draft> drafts) {
  std::vector<Draft> true_drafts = drafts;
  for (Draft& draft : true_drafts) {
    const std::string key = draft.name;
    if (model_ != nullptr) draft.name = model_->NameOfCounter(*draft.limit, key);
    Expire(key, draft);
  }
  Read(counters_.by_key, call_.now, drafts);
  if (call_.planted == Planted::kStatesMisread) Misread(drafts);
  Read(counters_.by_name, call_.now, true_drafts);
  const std::vector<double> decided = simulation::Decide(check, drafts);
  const std::vector<double> expected = simulation::Decide(check, true_drafts);
  if (decided != expected && model_ != nullptr) {
    model_->RecordUntrue(fmt::format("{}: Redis replied {}, but should have replied {}",
                                     true_drafts.front().name, fmt::join(decided, " "),
                                     fmt::join(expected, " ")));
    Follow(drafts, true_drafts);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const bool written = Write(drafts[i]);
    WriteTrue(true_drafts[i], drafts[i].name, check.asked.demand.mode, written);
  }
  return decided;
}

// If a key has expired, the true counter may start again once no check depends on it.
void Script::Decider::Expire(const std::string& key, const Draft& true_draft) {
  const auto stored = counters_.by_key.find(key);
  if (stored != counters_.by_key.end()) {
    if (stored->second.expires > call_.now) return;
    counters_.by_key.erase(stored);
  }
  const auto found = counters_.by_name.find(true_draft.name);
  if (found == counters_.by_name.end() || found->second.matters_until > call_.now) return;
  Open(*true_draft.limit, found->second.state, call_.now);
  if (model_ == nullptr || std::holds_alternative<Concurrency>(*true_draft.limit)) return;
  model_->Record(true_draft.name, {.at = call_.now,
                                   .key = key,
                                   .limit = *true_draft.limit,
                                   .state = found->second.state,
                                   .gives_back = true});
}

void Script::Decider::Misread(std::vector<Draft>& drafts) const {
  for (Draft& draft : drafts) {
    if (draft.found && counters_.by_key.at(draft.name).limit != *draft.limit) {
      Open(*draft.limit, draft.state, call_.now);
    }
  }
}

// After a wrong decision only further faults are reported.
void Script::Decider::Follow(const std::vector<Draft>& drafts, std::vector<Draft>& true_drafts) {
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const std::string name = std::move(true_drafts[i].name);
    true_drafts[i] = drafts[i];
    true_drafts[i].state = CopyOf(drafts[i].state, counters_.leases);
    true_drafts[i].name = name;
    true_drafts[i].found = counters_.by_name.contains(name);
  }
}

// A check that only finds a counter prolongs the life of its key, if necessary.
bool Script::Decider::Write(const Draft& draft) {
  const Time matters_until = call_.now + Lifetime(*draft.limit, draft.state, call_.now);
  const auto stored = counters_.by_key.find(draft.name);
  const bool fresh = stored == counters_.by_key.end();
  const bool prolongs = !fresh && call_.planted != Planted::kKeysExpireEarly &&
                        matters_until > stored->second.expires - seconds(1);
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
  if (!draft.changed && !written) return;
  counter.key = key;
  counter.limit = *draft.limit;
  counter.state = draft.state;
  if (model_ == nullptr || std::holds_alternative<Concurrency>(*draft.limit)) return;
  model_->Record(draft.name, {.at = call_.now,
                              .server = call_.server,
                              .key = key,
                              .limit = *draft.limit,
                              .state = draft.state,
                              .gives_back = mode == Mode::kUndo});
}

// As check.lua does: a key that is written again lives longer than required, and a key that lives
// long enough is written in place.
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

Script::Script(std::span<const Limit> limits, Model* model) : model_(model) {
  struct Check final : StoreCheck {
    void OnDecided() override {}
  };
  for (const Limit& limit : limits) {
    Check check;
    check.counters.push_back({.key = "key", .limit = &limit, .verdict = {}});
    redis::ScriptCall call;
    call.Add(check, 1);
    Reader reader(Unpack(call.Arguments().back()));
    reader.MoveTo(8);
    reader.MoveTo(reader.Index());
    limits_.emplace(ReadLimit(reader), limit);
  }
}

void Script::Counters::MoveKey(const std::string& key, Counters& to) {
  to.by_key.insert(by_key.extract(key));
  to.leases.insert(leases.begin(), leases.end());
  for (auto at = by_name.begin(); at != by_name.end();) {
    const auto counter = at++;
    if (counter->second.key == key) to.by_name.insert(by_name.extract(counter));
  }
}

Script::Counters Script::Copy(const Counters& counters) {
  Counters copy = counters;
  for (auto& [key, counter] : copy.by_key) counter.state = CopyOf(counter.state, counters.leases);
  for (auto& [name, counter] : copy.by_name) counter.state = CopyOf(counter.state, counters.leases);
  return copy;
}

std::vector<std::string> Script::Run(const Call& call, Counters& counters) const {
  Reader reader(Unpack(call.arguments.back()));
  test::Require(reader.Number() == kVersion, "the simulated check script has another version");
  reader.Number();  // the time: Redis' own
  reader.Number();  // whether the call may take the short way
  const std::size_t limit_count = reader.Index();
  const std::size_t request_count = reader.Index();
  const std::size_t check_count = reader.Index();
  const std::size_t key_count = reader.Index();
  const std::size_t first_limit = reader.Index();
  const bool declared = !call.keys.empty();
  const auto keys = declared ? call.keys : call.arguments.first(key_count);
  const auto leases = call.arguments.subspan(declared ? 0 : key_count);
  std::vector<const Limit*> limits;
  reader.MoveTo(first_limit);
  for (std::size_t i = 0; i < limit_count; ++i) limits.push_back(&limits_.at(ReadLimit(reader)));
  reader.MoveTo(9);
  std::vector<Asked> requests;
  for (std::size_t i = 0; i < request_count; ++i) requests.push_back(ReadAsked(reader));

  const double time = static_cast<double>(call.now.time_since_epoch().count());
  std::vector<double> out{kVersion, time};
  std::vector<std::string> reply(1);
  std::size_t next_lease = 0;
  Decider decider(model_, call, counters);
  for (std::size_t i = 0; i < check_count; ++i) {
    const Asked& asked = requests[reader.Index() - 1];
    Check check{.asked = asked, .now = call.now};
    check.n = reader.Integer();
    if (asked.leased) {
      check.lease = ReadLease(leases[next_lease++]);
      counters.leases.insert(check.lease->id);
    }
    std::vector<Draft> drafts;
    bool foreign = false;
    for (const auto& [limit, group] : asked.counters) {
      drafts.push_back({limits[limit], group, keys[reader.Index() - 1]});
      foreign = foreign || (!declared && !call.may_read(drafts.back().name));
    }
    for (Draft& draft : drafts) draft.units = reader.Integer();
    for (std::size_t j = 0; asked.demand.mode == Mode::kUndo && j < drafts.size(); ++j) {
      check.records.push_back(reader.Numbers(3));
    }
    if (foreign) {
      out.push_back(-static_cast<double>(reply.size()));
      reply.emplace_back("ERR Script attempted to access a non local key in a cluster node");
      continue;
    }
    const std::vector<double> decided = decider.Decide(check, std::move(drafts));
    out.insert(out.end(), decided.begin(), decided.end());
  }
  decider.SetExpiries();
  reply.front().assign(reinterpret_cast<const char*>(out.data()), out.size() * sizeof(double));
  return reply;
}

}  // namespace sluice::simulation
