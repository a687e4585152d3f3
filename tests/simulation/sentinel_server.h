// A sentinel of the simulation: tells which server is the master, and publishes each change.
//
// One thread.
#pragma once

#include <memory>
#include <string>

#include <fmt/format.h>

#include "tests/simulation/network.h"
#include "tests/simulation/resp_session.h"
#include "tests/simulation/world.h"

namespace sluice::simulation {

class SentinelServer {
 public:
  static constexpr const char* kMaster = "main";

  SentinelServer(World& world, const Address& address, const Address& master)
      : world_(world), address_(address), master_(master) {}
  ~SentinelServer() { Kill(); }

  const Address& address() const { return address_; }

  // See RedisServer.
  std::shared_ptr<Link> Accept(const LinkOptions& options) {
    auto link = std::make_shared<Link>(world_, options);
    if (!runs_) return link;
    RespSession::Open(link, open_, [this](const auto& session, const test::RedisCommand& words) {
      session->Answer(Execute(*session, words));
    });
    return link;
  }
  void Kill() {
    runs_ = false;
    RespSession::CloseAll(open_);
  }
  void Start() { runs_ = true; }

  void SwitchTo(const Address& master) {
    const std::string change = fmt::format("{} {} {} {} {}", kMaster, master_.host, master_.port,
                                           master.host, master.port);
    master_ = master;
    for (const auto& session : open_) {
      if (!session->subscribed) continue;
      session->Answer("*3\r\n" + test::Bulk("message") + test::Bulk("+switch-master") +
                      test::Bulk(change));
    }
  }

 private:
  std::string Execute(RespSession& session, const test::RedisCommand& words) const {
    if (words[0] == "SENTINEL") {
      return "*2\r\n" + test::Bulk(master_.host) + test::Bulk(std::to_string(master_.port));
    }
    if (words[0] == "CLIENT") return "+OK\r\n";
    session.subscribed = words[0] == "SUBSCRIBE";
    const std::string kind = session.subscribed ? "subscribe" : "unsubscribe";
    const std::string channels = session.subscribed ? ":1\r\n" : ":0\r\n";
    return "*3\r\n" + test::Bulk(kind) + test::Bulk(words[1]) + channels;
  }

  World& world_;
  const Address address_;
  Address master_;
  RespSession::List open_;
  bool runs_ = true;
};

}  // namespace sluice::simulation
