#include "tests/simulation/schedule.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "tests/simulation/caller.h"
#include "tests/simulation/sluice_server.h"
#include "tests/support/require.h"

namespace sluice::simulation {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kServers = 2;
constexpr std::int64_t kSlots = 3;
constexpr milliseconds kRedisTimeout(10);
constexpr milliseconds kLoad(400);     // calls and faults come for so long
constexpr seconds kAftermath(4);       // until nothing is left of them
constexpr milliseconds kRelease(100);  // how often a release that failed is tried again

// What a rule admits for each user; so slow to refill that nothing does meanwhile.
struct Quota {
  const char* endpoint;
  Limit limit;
  std::int64_t units;
};
const Quota kQuotas[] = {
    {"window", FixedWindow{.limit = 8, .window = hours(24)}, 8},
    {"bucket", TokenBucket{.rate = 1, .period = hours(24), .burst = 8}, 8},
    {"log", SlidingLog{.limit = 8, .window = hours(24)}, 8},
    {"segments", SlidingWindow{.limit = 8, .window = hours(24)}, 8},
    {"queue", LeakyBucket{.rate = 1, .period = hours(24), .queue = 7, .delays = false}, 8},
};
const Limit kSlotLimit = Concurrency{.limit = kSlots, .ttl = hours(1)};

std::vector<Limit> AllLimits() {
  std::vector<Limit> limits{kSlotLimit, Concurrency{},
                            FixedWindow{.limit = kMaxProduct, .window = seconds(1)}};
  for (const Quota& quota : kQuotas) limits.push_back(quota.limit);
  return limits;
}

Rule RuleFor(const char* endpoint, const Limit& limit, OnStoreFailure policy) {
  Rule rule;
  rule.name = endpoint;
  rule.match = {{"endpoint", {.kind = Pattern::Kind::kExact, .text = endpoint}}};
  rule.per = {{"user", {}, {}}};
  rule.limits.limits = {limit};
  rule.on_store_failure = policy;
  return rule;
}

class Schedule {
 public:
  Schedule(std::uint64_t seed, RedisServer::Planted planted);

  Report Run();

 private:
  // What callers have heard of one counter.
  struct Ledger {
    std::int64_t limit = 0;
    std::int64_t asked = 0;  // units, of all calls that may have reached Redis
    std::int64_t by_store = 0;
    std::int64_t by_fallback = 0;
    std::int64_t held = 0;  // slots of leases that the store granted
  };
  struct Call {
    int server;
    const Caller* caller;
    std::string endpoint;
    std::string key;
    std::int64_t cost;
    SteadyTime sent;
    bool decided = false;
    bool answered = false;
  };

  std::shared_ptr<const RuleIndex> MakeRules();
  void Connect();
  void ScheduleCalls();
  void ScheduleFaults();
  void StartFault();
  void Heal();
  void MakeCall();
  void OnOutcome(Call& call, const Caller::Outcome& outcome);
  void OnAllowed(const Call& call, const v1::CheckLimitResponse& response);
  void HoldLease(const std::string& id, const Call& call, bool by_store);
  void Release(const std::string& id, std::int64_t server);
  void JudgeTime(const Call& call, const Caller::Outcome& outcome);
  void Judge();
  void Break(std::string what) { report_.broken.push_back(std::move(what)); }

  Caller& CallerOf(std::int64_t server);
  std::shared_ptr<Link> ToRedis();

  World world_;
  Report report_;
  LinkOptions links_;
  bool local_ = true;
  RedisServer redis_;
  bool partitioned_[kServers] = {};
  std::vector<std::unique_ptr<SluiceServer>> servers_;
  std::vector<std::vector<std::unique_ptr<Caller>>> callers_;  // by server
  std::vector<std::shared_ptr<Link>> redis_links_;
  std::map<std::string, Ledger> ledgers_;  // by key
  std::vector<std::unique_ptr<Call>> calls_;
  Duration held_up_{};  // all stalls and blockages so far
};

Schedule::Schedule(std::uint64_t seed, RedisServer::Planted planted)
    : world_(seed), redis_(world_, AllLimits()) {
  redis_.Plant(planted);
  links_ = {.least_delay = Duration(10),
            .most_delay = world_.Between(Duration(20), milliseconds(2)),
            .splits = world_.OneIn(3)};
  const auto rules = MakeRules();
  for (std::int64_t i = 0; i < kServers; ++i) {
    servers_.push_back(std::make_unique<SluiceServer>(
        world_, [this](const Address&) { return ToRedis(); }, rules, Share::OfServer(kServers, i),
        kRedisTimeout));
  }
  callers_.resize(kServers);
}

std::shared_ptr<const RuleIndex> Schedule::MakeRules() {
  const OnStoreFailure policies[] = {OnStoreFailure::kLocal, OnStoreFailure::kLocal,
                                     OnStoreFailure::kDeny, OnStoreFailure::kError,
                                     OnStoreFailure::kAllow};
  const OnStoreFailure policy = world_.Pick(policies);
  local_ = policy == OnStoreFailure::kLocal;
  Domain domain;
  domain.name = "shop";
  for (const Quota& quota : kQuotas) {
    domain.rules.push_back(RuleFor(quota.endpoint, quota.limit, policy));
  }
  domain.rules.push_back(RuleFor("slots", kSlotLimit, policy));
  return RuleIndex::Build({domain}, {}).value();
}

std::shared_ptr<Link> Schedule::ToRedis() {
  auto link = redis_.Accept(links_);
  if (link) redis_links_.push_back(link);
  return link;
}

Caller& Schedule::CallerOf(std::int64_t server) {
  auto& callers = callers_[static_cast<std::size_t>(server)];
  if (callers.empty() || !callers.back()->connected() || world_.OneIn(20)) {
    auto link = std::make_shared<Link>(world_, links_);
    callers.push_back(std::make_unique<Caller>(world_, link));
    servers_[static_cast<std::size_t>(server)]->Accept(link);
  }
  return *callers.back();
}

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
  const auto server = static_cast<std::int64_t>(world_.Below(kServers));
  const bool slots = world_.OneIn(5);
  const Quota& quota = world_.Pick(kQuotas);
  Call& call = *calls_.emplace_back(std::make_unique<Call>());
  call.server = static_cast<int>(server);
  call.endpoint = slots ? "slots" : quota.endpoint;
  call.key = call.endpoint + "/" + std::to_string(world_.Below(2));
  call.cost = static_cast<std::int64_t>(1 + world_.Below(slots ? 2 : 3));
  call.sent = world_.now();

  v1::CheckLimitRequest request;
  request.set_domain("shop");
  (*request.mutable_attributes())["endpoint"] = call.endpoint;
  (*request.mutable_attributes())["user"] = call.key.substr(call.key.find('/') + 1);
  request.set_cost(static_cast<std::uint64_t>(call.cost));
  const bool peeks = world_.OneIn(12);
  if (peeks) request.set_mode(v1::MODE_PEEK);
  Ledger& ledger = ledgers_[call.key];
  ledger.limit = slots ? kSlots : quota.units;
  if (peeks) {
    call.cost = 0;
  } else {
    ledger.asked += call.cost;
  }

  const Duration timeouts[] = {Duration(0),     Duration(0),      Duration(1), milliseconds(1),
                               milliseconds(5), milliseconds(20), seconds(1)};
  Caller& caller = CallerOf(server);
  call.caller = &caller;
  ++report_.calls;
  const int number =
      caller.Call("CheckLimit", request.SerializeAsString(), world_.Pick(timeouts),
                  [this, &call](const Caller::Outcome& outcome) { OnOutcome(call, outcome); });
  if (world_.OneIn(10)) {
    world_.After(world_.Between(Duration(0), milliseconds(15)),
                 [&caller, number] { caller.Cancel(number); });
  }
}

void Schedule::OnOutcome(Call& call, const Caller::Outcome& outcome) {
  if (std::exchange(call.decided, true)) return Break("a call was answered twice");
  report_.history +=
      fmt::format("{} {} {}\n", outcome.at.time_since_epoch().count(), call.key, outcome.status);
  if (outcome.status < 0) {
    ++report_.unanswered;
    return;
  }
  call.answered = true;
  ++report_.answers;
  JudgeTime(call, outcome);
  if (outcome.status != 0) {
    ++report_.errors;
    const bool known = outcome.status == 4 || (outcome.status == 14 && !local_);
    if (!known) Break(fmt::format("{} was answered with status {}", call.key, outcome.status));
    return;
  }
  v1::CheckLimitResponse response;
  test::Require(response.ParseFromString(outcome.response), "an answer that is no message");
  if (response.decision() == v1::DECISION_DENIED) {
    ++report_.denied;
  } else if (call.cost > 0) {
    OnAllowed(call, response);
  }
}

// An answer takes `redis.timeout`, once more if the loop was late, and what its network and its
// server were held up.
void Schedule::JudgeTime(const Call& call, const Caller::Outcome& outcome) {
  const auto took = std::chrono::ceil<Duration>(outcome.at - call.sent);
  const Duration least = 2 * kRedisTimeout + milliseconds(5) + held_up_;
  report_.slowest = std::max(report_.slowest, took - held_up_);
  const Duration network = links_.splits ? 400 * links_.most_delay : 20 * links_.most_delay;
  if (took > least + network) {
    Break(fmt::format("{} was answered after {} µs", call.key, took.count()));
  }
}

void Schedule::OnAllowed(const Call& call, const v1::CheckLimitResponse& response) {
  Ledger& ledger = ledgers_[call.key];
  const bool by_store = response.source() == v1::SOURCE_STORE;
  (by_store ? ledger.by_store : ledger.by_fallback) += call.cost;
  (by_store ? report_.admitted_by_store : report_.admitted_by_fallback) += call.cost;
  if (call.endpoint != "slots") {
    if (ledger.by_store > ledger.limit) {
      Break(
          fmt::format("{}: the store admitted {} of {}", call.key, ledger.by_store, ledger.limit));
    }
    return;
  }
  if (response.has_lease()) HoldLease(response.lease().id(), call, by_store);
}

void Schedule::HoldLease(const std::string& id, const Call& call, bool by_store) {
  Ledger& ledger = ledgers_[call.key];
  if (by_store) ledger.held += call.cost;
  if (ledger.held > kSlots) {
    Break(fmt::format("{}: {} of {} slots are held", call.key, ledger.held, kSlots));
  }
  world_.After(world_.Between(Duration(0), kLoad / 2), [this, id, &call, by_store] {
    if (by_store) ledgers_[call.key].held -= call.cost;
    Release(id, call.server);
  });
}

// Until it is known to be released.
void Schedule::Release(const std::string& id, std::int64_t server) {
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(id);
  CallerOf(server).Call("ReleaseLease", request.SerializeAsString(), Duration(0),
                        [this, id, server](const Caller::Outcome& outcome) {
                          if (outcome.status == 0) return;
                          world_.After(kRelease, [this, id, server] { Release(id, server); });
                        });
}

void Schedule::ScheduleFaults() {
  const std::uint64_t n = world_.Below(5);
  for (std::uint64_t i = 0; i < n; ++i) {
    world_.After(world_.Between(Duration(0), kLoad), [this] { StartFault(); });
  }
  world_.After(kLoad + milliseconds(20), [this] { Heal(); });
}

void Schedule::StartFault() {
  ++report_.faults;
  const Duration lasts = world_.Between(Duration(100), milliseconds(80));
  const auto later = [&](World::Event event) { world_.After(lasts, std::move(event)); };
  switch (world_.Below(9)) {
    case 0:
      redis_.Hang();
      return later([this] { redis_.Resume(); });
    case 1:
      redis_.Kill();
      return later([this] { redis_.Start(); });
    case 2:
      redis_.Vanish(true);
      redis_.CutConnections();
      return later([this] { redis_.Vanish(false); });
    case 3:
      return redis_.FlushScripts();
    case 4: {
      const char* const errors[] = {"-BUSY Redis is busy running a script.\r\n",
                                    "-READONLY You can't write against a read only replica.\r\n",
                                    "-LOADING Redis is loading the dataset in memory\r\n",
                                    "-OOM command not allowed when used memory > 'maxmemory'.\r\n"};
      redis_.FailScripts(world_.Pick(errors));
      return later([this] { redis_.FailScripts({}); });
    }
    case 5:
      redis_.SetSlow(world_.Between(milliseconds(1), milliseconds(30)));
      return later([this] { redis_.SetSlow(Duration(20)); });
    case 6:
      if (!redis_links_.empty()) redis_links_[world_.Below(redis_links_.size())]->Cut();
      return;
    case 7: {
      const Duration stall = world_.Between(Duration(0), milliseconds(40));
      held_up_ += stall;
      return servers_[world_.Below(kServers)]->Stall(stall);
    }
    default:
      auto& callers = callers_[world_.Below(kServers)];
      if (!callers.empty()) callers.back()->CutConnection();
  }
}

void Schedule::Heal() {
  redis_.Start();
  redis_.Vanish(false);
  redis_.FailScripts({});
  redis_.SetSlow(Duration(20));
  redis_.Resume();
}

Report Schedule::Run() {
  ScheduleCalls();
  ScheduleFaults();
  world_.RunUntil(world_.now() + kLoad + kAftermath);
  Judge();
  return std::move(report_);
}

void Schedule::Judge() {
  // Of an answer that was on its way when the connection was cut, no server can know whether it
  // arrived: a lease that it names holds until its time is over.
  std::map<std::string, std::int64_t> perhaps_held;
  for (const auto& call : calls_) {
    if (!call->decided) Break(fmt::format("{} was never answered", call->key));
    if (!call->answered && !call->caller->connected()) perhaps_held[call->key] += call->cost;
  }
  for (const auto& [key, ledger] : ledgers_) {
    const bool slots = key.starts_with("slots");
    const std::int64_t used = redis_.Used("{shop/" + key + "}");
    if (slots && used > perhaps_held[key])
      Break(fmt::format("{}: {} slots are held by nobody", key, used));
    if (!slots && used < ledger.by_store) {
      Break(fmt::format("{}: the store counts {}, but admitted {}", key, used, ledger.by_store));
    }
    if (!slots && used > ledger.asked) {
      Break(fmt::format("{}: the store counts {} of {} asked for", key, used, ledger.asked));
    }
    // Some that passed by fallback are counted by the store as well: its replies came too late.
    const std::int64_t admitted = ledger.by_store + ledger.by_fallback;
    if (!slots && local_ && admitted > 2 * ledger.limit) {
      Break(fmt::format("{}: {} of {} were admitted, {} of them by fallback", key, admitted,
                        ledger.limit, ledger.by_fallback));
    }
    report_.history += fmt::format("{} {}\n", key, used);
  }
  for (auto& callers : callers_) {
    for (auto& caller : callers) {
      if (caller->unexpected() > 0) Break("a call was answered with half a message");
    }
    callers.clear();
  }
  world_.RunUntil(world_.now() + seconds(5));
  for (const auto& server : servers_) {
    if (!server->Stop()) Break("a server holds on to calls that have ended");
  }
}

}  // namespace

Report RunSchedule(std::uint64_t seed, RedisServer::Planted planted) {
  return Schedule(seed, planted).Run();
}

}  // namespace sluice::simulation
