#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/require.h"

namespace sluice::test {

namespace {

constexpr std::chrono::seconds kStartTimeout(10);

}  // namespace

// redis-server cannot choose a free port itself.
int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof(address);
  Require(bind(fd, generic, length) == 0 && getsockname(fd, generic, &length) == 0,
          "cannot find a free port");
  close(fd);
  return ntohs(address.sin_port);
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
