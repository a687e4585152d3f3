// A real redis-server, by default without persistence, on a unix socket and optionally on a free
// TCP port of 127.0.0.1. It can be killed, paused, and restarted at the same addresses.
// RedisSentinels and RedisCluster start several servers.
//
// Not thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/redis_connection.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

// A free TCP port of 127.0.0.1 that no other test has taken: tests/support/free_port.py reserves
// ports in the same way. The port is below those that the kernel assigns to connections, so no
// connection takes it before the server listens.
int FreePort();

// The path of the program that tests start. The environment variable SLUICE_REDIS_SERVER can set
// it, for example to the path of valkey-server. The default is redis-server.
std::string RedisProgram();

// The time within which the nodes of a topology agree, even on a busy machine.
inline constexpr std::chrono::seconds kTopologyTimeout(30);

class RedisServer {
 public:
  struct Options {
    bool tcp = false;
    bool tls = false;                      // TCP with TLS; `arguments` name the certificate
    std::vector<std::string> arguments;    // as on redis-server's command line
    std::vector<std::string> environment;  // NAME=value
  };

  RedisServer() : RedisServer(Options{}) {}
  // Returns when the server accepts connections.
  explicit RedisServer(const Options& options);

  // Starts the server again at the same addresses.
  void Start();
  // Kills the server at once, as a crash would.
  void Kill();
  // Saves the data and stops the server, as for an upgrade. Start loads the data again.
  void Shutdown();
  // Suspends the process. Its connections stay open.
  void Pause();
  void Resume();

  std::string socket_path() const { return dir_.path() / "redis.sock"; }
  std::string url() const { return "unix://" + socket_path(); }
  // host:port. REQUIRES: Options::tcp or Options::tls
  std::string tcp_address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  pid_t pid() const { return process_->pid(); }

  RedisConnection Connect() const { return RedisConnection(socket_path()); }

  // Whether this replica has its master's data.
  bool IsInSync() const {
    const std::string info = Connect().Text({"INFO", "replication"});
    return info.find("master_link_status:up") != std::string::npos;
  }

 private:
  const TempDir dir_;
  const bool tls_;
  const std::vector<std::string> arguments_;
  const std::vector<std::string> environment_;
  int port_ = 0;  // 0: no TCP
  std::unique_ptr<Process> process_;
};

}  // namespace sluice::test
