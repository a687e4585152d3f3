// A master, its replicas, and sentinels: real processes on free ports. The sentinels have a
// different password than the servers.
//
// Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class RedisSentinels {
 public:
  static constexpr char kMaster[] = "mymaster";
  static constexpr char kPassword[] = "watch@night";

  struct Options {
    int replicas = 1;
    int sentinels = 3;
    std::vector<std::string> tls;        // arguments that name the certificate; empty: no TLS
    std::vector<std::string> arguments;  // of each redis-server
  };

  // Returns when the first sentinel knows the other sentinels and the replicas.
  explicit RedisSentinels(const Options& options);

  // `login`, such as "sluice:secret@", precedes the hosts.
  std::string Url(const std::string& login = "") const;

  // The current master, according to the first live sentinel.
  RedisServer& master();
  // Makes a sentinel begin a failover, and waits until another server is the master.
  void Failover();
  // Waits until a server other than `before` is the master.
  void WaitForOther(const RedisServer& before);

  std::vector<std::unique_ptr<RedisServer>>& servers() { return servers_; }
  // Kills a sentinel permanently.
  void KillSentinel(std::size_t index) { sentinels_[index]->process.reset(); }

 private:
  struct Sentinel {
    TempDir dir;
    int port = 0;
    std::unique_ptr<Process> process;
    std::string socket_path() const { return dir.path() / "sentinel.sock"; }
  };

  void StartSentinel(const Options& options);
  RedisConnection AskSentinel() const;

  const bool tls_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;
};

}  // namespace sluice::test
