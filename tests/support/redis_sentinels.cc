#include "tests/support/redis_sentinels.h"

#include <algorithm>
#include <fstream>

#include "tests/support/require.h"
#include "tests/support/wait_until.h"

namespace sluice::test {
namespace {

std::string FieldOf(const std::vector<std::string>& fields, const std::string& name) {
  const auto found = std::find(fields.begin(), fields.end(), name);
  return found == fields.end() ? "" : *(found + 1);
}

}  // namespace

RedisSentinels::RedisSentinels(const Options& options) : tls_(!options.tls.empty()) {
  for (int i = 0; i <= options.replicas; ++i) {
    std::vector<std::string> arguments = options.arguments;
    arguments.insert(arguments.end(), options.tls.begin(), options.tls.end());
    arguments.insert(arguments.end(),
                     {"--repl-diskless-sync-delay", "0", "--tls-replication", tls_ ? "yes" : "no"});
    if (i > 0) {
      const std::string port = std::to_string(servers_[0]->port());
      arguments.insert(arguments.end(), {"--replicaof", "127.0.0.1 " + port});
    }
    servers_.push_back(std::make_unique<RedisServer>(
        RedisServer::Options{.tcp = !tls_, .tls = tls_, .arguments = arguments}));
  }
  // Sentinels do not choose a replica that has never been in sync.
  const bool in_sync = WaitUntil(kTopologyTimeout, [&] {
    return std::all_of(servers_.begin() + 1, servers_.end(),
                       [](auto& it) { return it->IsInSync(); });
  });
  Require(in_sync, "the replicas do not follow");
  for (int i = 0; i < options.sentinels; ++i) StartSentinel(options);
  const bool ready = WaitUntil(kTopologyTimeout, [&] {
    const auto fields = AskSentinel().List({"SENTINEL", "MASTER", kMaster});
    return FieldOf(fields, "num-slaves") == std::to_string(options.replicas) &&
           FieldOf(fields, "num-other-sentinels") == std::to_string(options.sentinels - 1);
  });
  Require(ready, "the sentinels do not find each other");
}

void RedisSentinels::StartSentinel(const Options& options) {
  auto sentinel = std::make_unique<Sentinel>();
  sentinel->port = FreePort();
  const std::string config = sentinel->dir.path() / "sentinel.conf";
  std::ofstream file(config);
  // options.tls has pairs: a flag, such as "--tls-cert-file", and its value.
  for (std::size_t i = 0; i < options.tls.size(); i += 2) {
    file << options.tls[i].substr(2) << ' ' << options.tls[i + 1] << '\n';
  }
  if (tls_) file << "port 0\ntls-replication yes\ntls-";
  file << "port " << sentinel->port << "\nbind 127.0.0.1\nunixsocket " << sentinel->socket_path()
       << "\ndir " << sentinel->dir.path().string() << "\nrequirepass " << kPassword
       << "\nsentinel sentinel-pass " << kPassword << "\nsentinel monitor " << kMaster
       << " 127.0.0.1 " << servers_[0]->port() << ' ' << options.sentinels / 2 + 1
       << "\nsentinel down-after-milliseconds " << kMaster << " 500"
       << "\nsentinel failover-timeout " << kMaster << " 2000\n";
  file.close();
  sentinel->process =
      std::make_unique<Process>(Process::Options{.argv = {RedisProgram(), config, "--sentinel"}});
  const bool ready = sentinel->process->WaitForLine("+monitor", kTopologyTimeout).has_value();
  Require(ready, "the sentinel does not start:\n" + sentinel->process->Output());
  sentinels_.push_back(std::move(sentinel));
}

RedisConnection RedisSentinels::AskSentinel() const {
  const auto alive = std::find_if(sentinels_.begin(), sentinels_.end(),
                                  [](auto& it) { return it->process != nullptr; });
  RedisConnection connection((*alive)->socket_path());
  connection.Text({"AUTH", kPassword});
  return connection;
}

std::string RedisSentinels::Url(const std::string& login) const {
  std::string url = (tls_ ? "rediss+sentinel://" : "redis+sentinel://") + login;
  for (const auto& sentinel : sentinels_) {
    if (sentinel != sentinels_.front()) url += ',';
    url += "127.0.0.1:" + std::to_string(sentinel->port);
  }
  return url + "/" + kMaster + "?sentinel_password=watch%40night";
}

RedisServer& RedisSentinels::master() {
  const auto address = AskSentinel().List({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kMaster});
  const auto found = std::find_if(servers_.begin(), servers_.end(), [&](auto& server) {
    return std::to_string(server->port()) == address[1];
  });
  Require(found != servers_.end(), "sentinels name an unknown master");
  return **found;
}

// A sentinel refuses SENTINEL FAILOVER if it does not know a healthy replica yet, or if the last
// failover is too recent. So the command is repeated.
void RedisSentinels::Failover() {
  const RedisServer& before = master();
  const bool begun = WaitUntil(kTopologyTimeout, [&] {
    return AskSentinel().ErrorOf({"SENTINEL", "FAILOVER", kMaster}).empty();
  });
  Require(begun, "the sentinel does not begin a failover");
  WaitForOther(before);
}

void RedisSentinels::WaitForOther(const RedisServer& before) {
  Require(WaitUntil(kTopologyTimeout, [&] { return &master() != &before; }), "no other master");
}

}  // namespace sluice::test
