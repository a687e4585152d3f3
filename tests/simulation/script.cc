#include "tests/simulation/script.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "store/redis/script_call.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

constexpr double kVersion = 6;

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

// A limit as calls name it: number of the algorithm, number of parameters, parameters.
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
  asked.demand.cost = reader.Integer();
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
  std::string_view key;
  CounterState state;
};

// The counters' states as of now.
void Read(const Script::Counters& counters, Time now, std::vector<Draft>& drafts) {
  for (Draft& draft : drafts) {
    const auto stored = counters.find(draft.key);
    if (stored != counters.end()) {
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
void Decide(std::vector<Draft>& drafts, CoalescedChecks checks, std::int64_t n,
            std::vector<double>& out) {
  const bool peeks = checks.demand.mode == Mode::kPeek;
  std::int64_t allowed = n;
  for (std::size_t begin = 0, end = 0; begin < drafts.size(); begin = end) {
    std::int64_t granted = peeks ? std::min<std::int64_t>(allowed, 1) : allowed;
    for (; end < drafts.size() && drafts[end].group == drafts[begin].group; ++end) {
      granted = Grants(*drafts[end].limit, drafts[end].state, checks.demand, granted);
    }
    if (peeks) granted *= allowed;
    if (drafts[begin].group == 0) allowed = granted;
    checks.granted = granted;
    out.push_back(static_cast<double>(granted));
    for (std::size_t i = begin; i < end; ++i) {
      Append(Summarize(*drafts[i].limit, drafts[i].state, checks), out);
      if (!peeks && granted > 0 && checks.demand.cost > 0)
        Take(*drafts[i].limit, drafts[i].state, checks);
    }
  }
}

// The same for n charges of one counter, as if made one after another.
void DecideCharges(Draft& draft, CoalescedChecks checks, std::int64_t n, std::vector<double>& out) {
  out.push_back(static_cast<double>(Grants(*draft.limit, draft.state, checks.demand, n)));
  Append(Summarize(*draft.limit, draft.state, checks), out);
  for (std::int64_t i = 0; i < n; ++i) Change(*draft.limit, draft.state, checks);
}

void DecideChange(std::vector<Draft>& drafts, const CoalescedChecks& checks,
                  const std::vector<std::vector<double>>& records, std::vector<double>& out) {
  std::map<std::int64_t, bool> group_admits;
  std::vector<bool> admitted;
  bool all_admit = true;
  for (const Draft& draft : drafts) {
    admitted.push_back(Admits(*draft.limit, draft.state, checks));
    const auto group = group_admits.emplace(draft.group, true).first;
    group->second = group->second && admitted.back();
    all_admit = all_admit && (admitted.back() || draft.group > 0);
  }
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    Draft& draft = drafts[i];
    ChangeResult done{.changed = false};
    if (checks.demand.mode == Mode::kUndo) {
      const std::vector<double>& record = records[i];
      done = Undo(*draft.limit, draft.state,
                  SnapshotFromFields(*draft.limit, {record[0], record[1], record[2]}), checks);
    } else if (checks.demand.mode != Mode::kRenew || all_admit) {
      done = Change(*draft.limit, draft.state, checks);
    }
    if (i == 0 || drafts[i - 1].group != draft.group) {
      out.push_back(group_admits[draft.group] ? 1 : 0);
    }
    out.push_back(admitted[i] ? 1 : 0);
    out.push_back(static_cast<double>(done.dropped));
    Append(Summarize(*draft.limit, draft.state, checks), out);
  }
}

}  // namespace

Script::Script(std::span<const Limit> limits) {
  struct Check final : StoreCheck {
    void OnDecided() override {}
  };
  for (const Limit& limit : limits) {
    Check check;
    check.counters.push_back({.key = "key", .limit = &limit, .verdict = {}});
    redis::ScriptCall call;
    call.Add(check, 1);
    Reader reader(Unpack(call.Arguments().back()));
    reader.Numbers(6);
    limits_.emplace(ReadLimit(reader), limit);
  }
}

Script::Counters Script::Copy(const Counters& counters) {
  Counters copy = counters;
  for (auto& [key, counter] : copy) {
    auto* const slots = std::get_if<Concurrency::State>(&counter.state);
    if (slots == nullptr) continue;
    slots->holders = std::make_shared<Concurrency::Holders>(*slots->holders);
  }
  return copy;
}

std::vector<std::string> Script::Run(std::span<const std::string> keys,
                                     std::span<const std::string> arguments, Time now,
                                     Counters& counters, const MayRead& may_read) const {
  Reader reader(Unpack(arguments.back()));
  test::Require(reader.Number() == kVersion, "the simulated check script is of another version");
  reader.Number();  // the time: Redis' own
  const std::size_t limit_count = reader.Index();
  const std::size_t request_count = reader.Index();
  const std::size_t check_count = reader.Index();
  const std::size_t key_count = reader.Index();
  const bool declared = !keys.empty();
  if (!declared) {
    keys = arguments.first(key_count);
    arguments = arguments.subspan(key_count);
  }
  std::vector<const Limit*> limits;
  for (std::size_t i = 0; i < limit_count; ++i) limits.push_back(&limits_.at(ReadLimit(reader)));
  std::vector<Asked> requests;
  for (std::size_t i = 0; i < request_count; ++i) requests.push_back(ReadAsked(reader));

  std::vector<double> out{kVersion, static_cast<double>(now.time_since_epoch().count())};
  std::vector<std::string> reply(1);
  std::size_t leases = 0;
  for (std::size_t i = 0; i < check_count; ++i) {
    const Asked& asked = requests[reader.Index() - 1];
    const std::int64_t n = reader.Integer();
    sluice::CoalescedChecks checks{.demand = asked.demand, .lease = {}, .granted = 0, .now = now};
    if (asked.leased) checks.lease = ReadLease(arguments[leases++]);
    std::vector<Draft> drafts;
    bool foreign = false;
    for (const auto& [limit, group] : asked.counters) {
      drafts.push_back({limits[limit], group, keys[reader.Index() - 1], {}});
      foreign = foreign || (!declared && !may_read(drafts.back().key));
    }
    std::vector<std::vector<double>> records;
    for (std::size_t j = 0; asked.demand.mode == Mode::kUndo && j < drafts.size(); ++j) {
      records.push_back(reader.Numbers(3));
    }
    if (foreign) {
      out.push_back(-static_cast<double>(reply.size()));
      reply.emplace_back("ERR Script attempted to access a non local key in a cluster node");
      continue;
    }
    Read(counters, now, drafts);
    const bool is_charge = asked.demand.mode == Mode::kCharge && !asked.leased &&
                           drafts.size() == 1 &&
                           std::holds_alternative<FixedWindow>(*drafts.front().limit);
    if (is_charge) {
      DecideCharges(drafts.front(), checks, n, out);
    } else if (asked.demand.consumes_or_peeks()) {
      Decide(drafts, checks, n, out);
    } else {
      DecideChange(drafts, checks, records, out);
    }
    for (Draft& draft : drafts) {
      if (asked.demand.mode == Mode::kPeek) continue;
      counters.insert_or_assign(std::string(draft.key), Counter{*draft.limit, draft.state});
    }
  }
  reply.front().assign(reinterpret_cast<const char*>(out.data()), out.size() * sizeof(double));
  return reply;
}

}  // namespace sluice::simulation
