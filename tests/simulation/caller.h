// A client of the simulation: an HTTP/2 connection that makes and cancels unary gRPC calls, and
// reports the outcome of each.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/simulation/network.h"
#include "tests/simulation/world.h"

struct nghttp2_session;

namespace sluice::simulation {

class Caller final : public Remote {
 public:
  // The outcome of a call.
  struct Outcome {
    int status = -1;       // gRPC's; -1: none, because the connection ended or the call was reset
    std::string response;  // of status 0
    SteadyTime at{};
  };
  using OnOutcome = std::function<void(const Outcome&)>;

  Caller(World& world, std::shared_ptr<Link> link);
  ~Caller() override;

  // Calls `on_outcome` once. If `timeout` is zero, the call has no deadline. Returns the number of
  // the call.
  int Call(std::string_view method, const std::string& request, Duration timeout,
           OnOutcome on_outcome);

  // Resets the call, if it has no outcome yet.
  void Cancel(int call);

  bool connected() const { return link_ != nullptr; }
  void CutConnection() {
    if (link_) link_->Cut();
  }

  // The number of answers with status OK that contained no whole message.
  int unexpected() const { return unexpected_; }

 private:
  struct Open {
    OnOutcome on_outcome;
    std::string body;
    std::size_t sent = 0;
    std::string received;
    int status = -1;
    bool canceled = false;
  };
  struct Callbacks;

  void Receive(std::string_view bytes) override;
  void OnClosed() override;
  void Send();
  void End(int stream);

  World& world_;
  std::shared_ptr<Link> link_;
  nghttp2_session* session_ = nullptr;
  std::map<int, Open> open_;
  int unexpected_ = 0;
};

}  // namespace sluice::simulation
