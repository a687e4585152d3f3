#include "tests/simulation/fleet.h"

#include <algorithm>
#include <utility>

namespace sluice::simulation {

using std::chrono::milliseconds;

namespace {

RedisUrl::Kind DrawKind(World& world) {
  const RedisUrl::Kind kinds[] = {RedisUrl::Kind::kSingle, RedisUrl::Kind::kSentinel,
                                  RedisUrl::Kind::kCluster, RedisUrl::Kind::kCluster};
  return world.Pick(kinds);
}

}  // namespace

Fleet::Fleet(World& world, const Rules& rules, const Script& script,
             Deployment::OnTakeOver on_take_over, Planted planted)
    : world_(world),
      rules_(rules),
      redis_(world, DrawKind(world), script, std::move(on_take_over)),
      planted_(planted),
      crashes_(kServers) {
  redis_.Plant(planted);
  links_ = {.least_delay = Duration(10),
            .most_delay = world_.Between(Duration(20), milliseconds(2)),
            .splits = world_.OneIn(3)};
  callers_.resize(kServers);
  reloads_.resize(kServers);
  for (std::size_t i = 0; i < kServers; ++i) servers_.push_back(MakeServer(i));
}

std::unique_ptr<SluiceServer> Fleet::MakeServer(std::size_t server) {
  const int number = static_cast<int>(server);
  const auto& reloads = reloads_[server];
  return std::make_unique<SluiceServer>(
      world_, [this, number](const Address& address) { return ToRedis(address, number); },
      SluiceServer::Options{
          .redis = redis_.url(),
          .rules = rules_.IndexOf(reloads.empty() ? 0 : reloads.back().version, server),
          .share = Share::OfServer(kServers, number),
          .planted = planted_});
}

// The process sends nothing more, and a new process starts at once.
void Fleet::Crash(std::size_t server) {
  for (const auto& link : redis_links_) {
    if (link->options().from == static_cast<int>(server)) link->Cut();
  }
  for (const auto& caller : callers_[server]) caller->CutConnection();
  servers_[server].reset();
  servers_[server] = MakeServer(server);
  ++crashes_[server];
}

std::shared_ptr<Link> Fleet::ToRedis(const Address& address, int from) {
  LinkOptions options = links_;
  options.from = from;
  auto link = redis_.Connect(address, options);
  if (link) redis_links_.push_back(link);
  return link;
}

// If two reloads overlap, a server may get the older version last.
void Fleet::Reload() {
  const int version = rules_.versions() - 1;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const auto rules = rules_.IndexOf(version, i);
    world_.After(world_.Between(Duration(0), milliseconds(150)), [this, i, version, rules] {
      servers_[i]->SetRules(rules);
      reloads_[i].push_back({world_.now(), version});
    });
  }
}

std::vector<int> Fleet::VersionsSince(std::int64_t server, SteadyTime since) const {
  std::vector<int> versions(1);
  for (const Reloaded& reload : reloads_[static_cast<std::size_t>(server)]) {
    if (reload.at < since) versions.clear();
    versions.push_back(reload.version);
  }
  return versions;
}

// If there is time before the crash, the server returns the grants that it holds.
void Fleet::DrainAndCrash(std::size_t server) {
  servers_[server]->Drain();
  world_.After(world_.Between(Duration(0), milliseconds(5)), [this, server] { Crash(server); });
}

Caller& Fleet::CallerOf(std::int64_t server) {
  auto& callers = callers_[static_cast<std::size_t>(server)];
  if (callers.empty() || !callers.back()->connected() || world_.OneIn(20)) {
    auto link = std::make_shared<Link>(world_, links_);
    callers.push_back(std::make_unique<Caller>(world_, link));
    servers_[static_cast<std::size_t>(server)]->Accept(link);
  }
  return *callers.back();
}

void Fleet::StartFault() {
  if (redis_.url().kind != RedisUrl::Kind::kSingle && world_.OneIn(2)) return redis_.Disturb();
  RedisServer& redis = redis_.AnyServer();
  const Duration lasts = world_.Between(Duration(100), milliseconds(80));
  const auto later = [&](World::Event event) { world_.After(lasts, std::move(event)); };
  switch (world_.Below(10)) {
    case 0:
      redis.Hang();
      return later([&redis] { redis.Resume(); });
    case 1:
      redis.Kill();
      return later([&redis] { redis.Start(); });
    case 2:
      redis.Vanish(true);
      redis.CutConnections();
      return later([&redis] { redis.Vanish(false); });
    case 3:
      return redis.FlushScripts();
    case 4: {
      const char* const errors[] = {"-BUSY Redis is busy running a script.\r\n",
                                    "-READONLY You can't write against a read only replica.\r\n",
                                    "-LOADING Redis is loading the dataset in memory\r\n",
                                    "-CLUSTERDOWN The cluster is down\r\n",
                                    "-OOM command not allowed when used memory > 'maxmemory'.\r\n"};
      redis.FailScripts(world_.Pick(errors));
      return later([&redis] { redis.FailScripts({}); });
    }
    case 5:
      redis.SetSlow(world_.Between(milliseconds(1), milliseconds(30)));
      return later([&redis] { redis.SetSlow(Duration(20)); });
    case 6:
      if (!redis_links_.empty()) redis_links_[world_.Below(redis_links_.size())]->Cut();
      return;
    case 7:
      return Stall();
    case 8:
      return world_.OneIn(3) ? DrainAndCrash(world_.Below(kServers))
                             : Crash(world_.Below(kServers));
    default:
      auto& callers = callers_[world_.Below(kServers)];
      if (!callers.empty()) callers.back()->CutConnection();
  }
}

void Fleet::Stall() {
  const Duration stall = world_.Between(Duration(0), milliseconds(40));
  stalls_ += stall;
  if (planted_ == Planted::kGrantsOnWrongClock) world_.StopBootClock(stall);
  servers_[world_.Below(kServers)]->Stall(stall);
}

bool Fleet::IsInDoubt() const {
  return crashes() > 0 || std::any_of(servers_.begin(), servers_.end(),
                                      [](const auto& server) { return server->IsInDoubt(); });
}

int Fleet::DisconnectCallers() {
  int incomplete = 0;
  for (auto& callers : callers_) {
    for (const auto& caller : callers) incomplete += caller->unexpected();
    callers.clear();
  }
  return incomplete;
}

bool Fleet::Stop() {
  bool clean = true;
  for (const auto& server : servers_) clean &= server->Stop();
  return clean;
}

}  // namespace sluice::simulation
