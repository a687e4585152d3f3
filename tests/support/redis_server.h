// A real redis-server that keeps nothing on disk, unless told to, on a unix socket and, if asked
// for, a free TCP port of 127.0.0.1. It can be killed, restarted at the same place and made to
// hang. RedisSentinels and RedisCluster start several.
//
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/redis_connection.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

// A TCP port of 127.0.0.1 that nobody uses. Someone may take it before the caller does; the
// caller's start then fails, loudly.
int FreePort();

class RedisServer {
 public:
  struct Options {
    bool tcp = false;
    bool tls = false;                      // the TCP port is TLS; `arguments` name the certificate
    std::vector<std::string> arguments;    // as on redis-server's command line
    std::vector<std::string> environment;  // NAME=value
  };

  RedisServer() : RedisServer(Options{}) {}
  // Returns when the server answers.
  explicit RedisServer(const Options& options);

  // As after Kill, at the same addresses.
  void Start();
  // At once, as a crash does.
  void Kill();
  // Saves all it holds and ends, as for an upgrade. Start finds it again.
  void Shutdown();
  // The process stands still, its connections stay open.
  void Pause();
  void Resume();

  std::string socket_path() const { return dir_.path() / "redis.sock"; }
  std::string url() const { return "unix://" + socket_path(); }
  // host:port. REQUIRES: Options::tcp
  std::string tcp_address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  pid_t pid() const { return process_->pid(); }

  RedisConnection Connect() const { return RedisConnection(socket_path()); }

 private:
  const TempDir dir_;
  const bool tls_;
  const std::vector<std::string> arguments_;
  const std::vector<std::string> environment_;
  int port_ = 0;  // 0: no TCP
  std::unique_ptr<Process> process_;
};

}  // namespace sluice::test
