#include "tests/simulation/script.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/redis/script_call.h"
#include "store/redis/slot.h"
#include "tests/simulation/script_decider.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

constexpr double kVersion = 10;

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
  // `number`: the position of the next number to be read, from 1.
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
  const std::int64_t leased = reader.Integer();
  asked.leased = leased == 1 || leased == 2;
  asked.concerns_grants = leased == 3;
  asked.recorded = leased == 2;
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
  const std::vector<double> numbers = Unpack(bytes.substr(lease.id.size()));
  const auto duration = [&](std::size_t i) {
    return Duration(static_cast<std::int64_t>(numbers[i]));
  };
  lease.ttl = duration(0);
  if (numbers.size() == 1) return lease;
  lease.report = HoldReport{.taken = Time(duration(1)), .duration = {}};
  const bool says_overload = numbers[2] >= ToNumber(HoldReport::kOverload.count());
  if (numbers[2] >= 0) {
    lease.report->duration = says_overload ? HoldReport::kOverload : duration(2);
  }
  return lease;
}

bool GivesBackAll(const Asked& asked, const std::vector<Draft>& drafts) {
  return asked.recorded && asked.demand.mode == Mode::kSettle &&
         std::all_of(drafts.begin(), drafts.end(),
                     [](const Draft& draft) { return draft.units == 0; });
}

}  // namespace

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

std::vector<std::string> Script::Counters::KeysOf(std::uint16_t slot) const {
  std::vector<std::string> keys;
  const auto add = [&](const auto& map) {
    for (const auto& [key, value] : map) {
      if (redis::SlotOf(key) == slot) keys.push_back(key);
    }
  };
  add(by_key);
  add(records);
  return keys;
}

void Script::Counters::MoveKey(const std::string& key, Counters& to) {
  to.by_key.insert(by_key.extract(key));
  to.records.insert(records.extract(key));
  to.true_records.insert(true_records.extract(key));
  to.leases.insert(leases.begin(), leases.end());
  for (auto at = by_name.begin(); at != by_name.end();) {
    const auto counter = at++;
    if (counter->second.key == key) to.by_name.insert(by_name.extract(counter));
  }
}

void Script::Counters::ForgetGrants(const std::string& key) {
  const auto stored = by_key.find(key);
  if (stored != by_key.end()) simulation::ForgetGrants(stored->second.state);
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
  reader.Number();  // the time; not used, since Redis' own clock decides
  reader.Number();  // whether the call may take the fast path
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
      drafts.push_back(
          {.limit = limits[limit], .group = group, .name = keys[reader.Index() - 1], .record = {}});
      foreign = foreign || (!declared && !call.may_read(drafts.back().name));
    }
    for (Draft& draft : drafts) draft.units = reader.Integer();
    for (std::size_t j = 0; asked.demand.mode == Mode::kUndo && j < drafts.size(); ++j) {
      check.before.push_back(reader.Numbers(3));
    }
    for (std::size_t j = 0; asked.recorded && j < drafts.size(); ++j) {
      drafts[j].record = keys[key_count + reader.Index() - 1];
    }
    const auto read_time = [&] { return Time(Duration(reader.Integer())); };
    for (std::size_t j = 0; asked.concerns_grants && j < drafts.size(); ++j) {
      drafts[j].returned.generation = read_time();
      drafts[j].returned.granted = reader.Integer();
      drafts[j].returned.unused = reader.Integer();
      drafts[j].wanted.units = reader.Integer();
      drafts[j].wanted.life = Duration(reader.Integer());
    }
    if (foreign) {
      out.push_back(-static_cast<double>(reply.size()));
      reply.emplace_back("ERR Script attempted to access a non local key in a cluster node");
      continue;
    }
    const bool forgets = call.planted == Planted::kLateLeasesKept && GivesBackAll(asked, drafts);
    Counters forgotten = forgets ? Copy(counters) : Counters();
    const std::vector<double> decided =
        forgets ? Decider(nullptr, call, forgotten).Decide(check, std::move(drafts))
                : decider.Decide(check, std::move(drafts));
    out.insert(out.end(), decided.begin(), decided.end());
  }
  decider.SetExpiries();
  reply.front().assign(reinterpret_cast<const char*>(out.data()), out.size() * sizeof(double));
  return reply;
}

}  // namespace sluice::simulation
