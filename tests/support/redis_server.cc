#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>

#include "tests/support/require.h"

namespace sluice::test {

namespace {

constexpr std::chrono::seconds kStartTimeout(10);

// Whether no other test has taken the port. It remains this process' port until the process ends,
// because the socket stays open.
bool Reserve(int port) {
  const std::string name = '\0' + ("sluice-test-port-" + std::to_string(port));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0) return true;
  close(fd);
  return false;
}

bool CanListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool can = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return can;
}

}  // namespace

int FreePort() {
  constexpr int kAttempts = 1000;
  std::random_device random;
  for (int i = 0; i < kAttempts; ++i) {
    const int port = 15'000 + static_cast<int>(random() % 17'000);
    if (Reserve(port) && CanListen(port)) return port;
  }
  Require(false, "cannot find a free port");
  return 0;
}

std::string RedisProgram() {
  const char* const program = std::getenv("SLUICE_REDIS_SERVER");
  return program != nullptr ? program : "/usr/bin/redis-server";
}

RedisServer::RedisServer(const Options& options)
    : tls_(options.tls),
      arguments_(options.arguments),
      environment_(options.environment),
      port_(options.tcp || options.tls ? FreePort() : 0) {
  Start();
}

void RedisServer::Start() {
  Process::Options options{
      .argv = {RedisProgram(), "--port", std::to_string(tls_ ? 0 : port_), "--tls-port",
               std::to_string(tls_ ? port_ : 0), "--bind", "127.0.0.1", "--unixsocket",
               socket_path(), "--dir", dir_.path(), "--save", "", "--appendonly", "no"},
      .environment = environment_};
  options.argv.insert(options.argv.end(), arguments_.begin(), arguments_.end());
  process_ = std::make_unique<Process>(options);
  const bool ready = process_->WaitForLine("eady to accept connections", kStartTimeout).has_value();
  Require(ready, "redis-server does not start:\n" + process_->Output());
}

void RedisServer::Kill() { process_.reset(); }

void RedisServer::Shutdown() {
  Connect().Shutdown();
  Require(process_->Wait(kStartTimeout) == 0, "redis-server did not end:\n" + process_->Output());
}

void RedisServer::Pause() { process_->Signal(SIGSTOP); }
void RedisServer::Resume() { process_->Signal(SIGCONT); }

}  // namespace sluice::test
