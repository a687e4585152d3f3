// A fake Redis server on a unix socket or a TCP port of 127.0.0.1, with scripted replies.
//
// Thread-safe. Serves any number of connections on a separate thread.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/thread.h"
#include "tests/store/resp.h"
#include "tests/support/require.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class FakeRedis {
 public:
  // Returns the bytes to send as the reply to a command. If they end with kCut, they are sent
  // without kCut, and the connection is closed. Called on the server's thread.
  static constexpr std::string_view kCut = "<cut>";
  using Answer = std::function<std::string(const RedisCommand&)>;

  enum class Listen { kUnix, kTcp };

  explicit FakeRedis(Answer answer, Listen where = Listen::kUnix) : answer_(std::move(answer)) {
    where == Listen::kUnix ? BindUnix() : BindTcp();
    Require(listen(listener_, 64) == 0 && pipe(stop_) == 0, "the fake Redis cannot listen");
    thread_ = Thread("fake-redis", [this] { Run(); });
  }
  ~FakeRedis() {
    close(stop_[1]);
    thread_.Join();
    for (auto& [fd, connection] : connections_) close(fd);
    close(stop_[0]);
    close(listener_);
  }

  std::string socket_path() const { return dir_.path() / "redis.sock"; }
  std::string url() const { return "unix://" + socket_path(); }
  int port() const { return port_; }

  // The number of connections accepted so far.
  int accepted() const { return accepted_; }

  // The reply of a healthy server to one command of a login.
  static std::string AnswerLogin(const RedisCommand& command) {
    return command[0] == "SCRIPT" ? Bulk("4d831abeb03d4bc5cc5dcd6e19e1860bd3292a19") : "+OK\r\n";
  }

 private:
  void BindUnix() {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = socket_path();
    std::copy(path.begin(), path.end(), address.sun_path);
    Require(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0,
            "the fake Redis cannot bind");
  }

  void BindTcp() {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    Require(bind(listener_, generic, size) == 0 && getsockname(listener_, generic, &size) == 0,
            "the fake Redis cannot bind");
    port_ = ntohs(address.sin_port);
  }

  void Run() {
    for (;;) {
      std::vector<pollfd> ready{{stop_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const auto& [fd, connection] : connections_) ready.push_back({fd, POLLIN, 0});
      poll(ready.data(), ready.size(), -1);
      if (ready[0].revents != 0) return;
      for (std::size_t i = 2; i < ready.size(); ++i) {
        if (ready[i].revents != 0) Serve(ready[i].fd);
      }
      if (ready[1].revents == 0) continue;
      connections_.try_emplace(accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC));
      ++accepted_;
    }
  }

  void Serve(int fd) {
    char bytes[65536];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got <= 0) return Close(fd);
    CommandReader& reader = connections_[fd];
    reader.Feed({bytes, static_cast<std::size_t>(got)});
    while (const auto command = reader.Next()) {
      const std::string reply = answer_(*command);
      const bool cut = reply.ends_with(kCut);
      send(fd, reply.data(), reply.size() - (cut ? kCut.size() : 0), MSG_NOSIGNAL);
      if (cut) return Close(fd);
    }
  }

  void Close(int fd) {
    close(fd);
    connections_.erase(fd);
  }

  const TempDir dir_;
  const Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  int stop_[2] = {-1, -1};
  std::map<int, CommandReader> connections_;
  std::atomic<int> accepted_ = 0;
  Thread thread_;
};

}  // namespace sluice::test
