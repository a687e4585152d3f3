// A connection from a client to a simulated server, in Redis' protocol.
//
// One thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/simulation/network.h"
#include "tests/store/resp.h"

namespace sluice::simulation {

class RespSession final : public Remote, public std::enable_shared_from_this<RespSession> {
 public:
  using List = std::vector<std::shared_ptr<RespSession>>;
  using OnCommand = std::function<void(const std::shared_ptr<RespSession>&, test::RedisCommand)>;

  // Opens a session on `link`. Until its connection ends, the session is in `open`, which must
  // outlive the session.
  static void Open(std::shared_ptr<Link> link, List& open, OnCommand on_command) {
    const auto session = std::make_shared<RespSession>(link, open, std::move(on_command));
    link->Join(open.emplace_back(session).get());
  }
  static void CloseAll(const List& open) {
    for (const auto& session : List(open)) session->link_->Cut();
  }

  RespSession(std::shared_ptr<Link> link, List& open, OnCommand on_command)
      : link_(std::move(link)), open_(open), on_command_(std::move(on_command)) {}

  int from() const { return link_->options().from; }
  void Answer(std::string_view reply) { link_->ToWire(reply); }

  bool asking = false;      // for the next command
  bool subscribed = false;  // subscribed to the sentinels' messages

 private:
  void Receive(std::string_view bytes) override {
    reader_.Feed(bytes);
    while (auto words = reader_.Next()) on_command_(shared_from_this(), std::move(*words));
  }
  void OnClosed() override {
    const auto self = shared_from_this();
    std::erase(open_, self);
  }

  const std::shared_ptr<Link> link_;
  List& open_;
  const OnCommand on_command_;
  test::CommandReader reader_;
};

}  // namespace sluice::simulation
