// A fake of the server's side of a call: the test sends events to the handler, and the fake records
// the handler's responses.
//
// Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/handler.h"

namespace sluice::test {

class FakeCall final : public rpc::Call, public rpc::UnaryResponder, public rpc::StreamResponder {
 public:
  SteadyTime deadline() const override { return deadline_; }
  SteadyTime received() const override { return SteadyTime{}; }
  std::optional<std::string_view> Metadata(std::string_view name) const override {
    if (name != "authorization") return std::nullopt;
    return authorization;
  }
  const net::Peer& peer() const override { return peer_; }

  void Finish(std::string_view message, std::function<void()> lost) override {
    ++finished;
    if (caller_gone && lost) lost();
    response = message;
  }
  void Finish(const rpc::Status& ended) override {
    ++finished;
    status = ended;
  }
  void Send(std::string_view message) override {
    sent.emplace_back(message);
    if (caller_reads) return;
    unsent_ += message.size();
  }
  std::size_t unsent_bytes() const override { return unsent_; }
  void SetReading(bool wanted) override { reading = wanted; }

  // Lets the caller read all pending messages.
  void ReadAll(rpc::StreamHandler& handler) {
    unsent_ = 0;
    handler.OnWritable();
  }

  std::optional<std::string_view> authorization;
  bool caller_reads = true;
  // A test that calls OnCancel sets this. From then on, Finish reports that the message is lost.
  bool caller_gone = false;

  int finished = 0;
  rpc::Status status;
  std::string response;
  std::vector<std::string> sent;
  bool reading = true;

 private:
  SteadyTime deadline_ = SteadyTime::max();
  std::size_t unsent_ = 0;
  const net::Peer peer_{.address = "unix"};
};

}  // namespace sluice::test
