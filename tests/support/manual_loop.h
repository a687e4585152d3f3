// A loop for tests that control its iterations, its time and all received bytes.
//
// Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/socket.h"

namespace sluice::test {

class ManualLoop final : public net::Loop {
 public:
  class Wire;

  ManualLoop() : Loop(0, 1) { SetCurrent(this); }
  ~ManualLoop() override {
    tasks_.clear();
    DropAll();
    SetCurrent(nullptr);
  }

  // Runs an iteration. The time since the previous iteration is `later`, plus the time given to
  // Advance, plus 1 ns. `work` runs in the step in which a real loop handles events.
  void RunIteration(const Task& work = {}, Duration later = {}) {
    BeginIteration(now() + later + std::exchange(advanced_, {}) + std::chrono::nanoseconds(1));
    if (work) work();
    for (Task& task : std::exchange(tasks_, {})) task();
    EndIteration();
  }

  // Runs iterations until no posted task is left. Returns the number of iterations.
  int RunUntilIdle() {
    int turns = 0;
    for (; !tasks_.empty(); ++turns) RunIteration();
    return turns;
  }

  // Adds `by` to the time until the next iteration.
  void Advance(Duration by) { advanced_ += by; }

  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  net::TransportPtr Adopt(net::Socket, net::FlushStage) override { return {}; }

  std::unique_ptr<net::ConnectAttempt> Connect(const Address&, Duration, net::FlushStage stage,
                                               net::ConnectDone done) override;

  // The newest connection; null if it was destroyed, or if nothing has connected yet.
  Wire* wire() const { return wire_; }

 private:
  struct Attempt final : net::ConnectAttempt {
    const std::shared_ptr<bool> alive = std::make_shared<bool>(true);
  };

  std::vector<Task> tasks_;
  Duration advanced_{};
  Wire* wire_ = nullptr;
};

// A transport whose peer is the test.
class ManualLoop::Wire final : public net::Transport {
 public:
  Wire(ManualLoop& loop, net::FlushStage stage, net::Peer peer = {})
      : Transport(stage), loop_(loop), peer_(std::move(peer)) {
    loop_.wire_ = this;
  }
  ~Wire() override {
    if (loop_.wire_ == this) loop_.wire_ = nullptr;
  }

  // The bytes sent since the last call.
  std::string TakeSent() { return std::exchange(sent_, {}); }

  // Must be called within an iteration.
  void Receive(std::string_view bytes) {
    if (protocol_ != nullptr) protocol_->Receive(bytes);
  }
  bool closed() const { return protocol_ == nullptr; }

  void Start(net::Protocol& protocol) override { protocol_ = &protocol; }
  void RequestFlush() override { loop_.RequestFlush(*this); }
  void SetReading(bool) override {}
  void FinishSending() override {}
  void Close() override { protocol_ = nullptr; }
  std::size_t unsent() const override { return 0; }
  bool HasUnreadInput() const override { return false; }
  const net::Peer& peer() const override { return peer_; }

 private:
  void Flush() override {
    std::string bytes;
    do {
      sent_ += std::exchange(bytes, {});
      if (protocol_ != nullptr) protocol_->TakeOutput(bytes);
    } while (!bytes.empty());
  }

  ManualLoop& loop_;
  net::Protocol* protocol_ = nullptr;
  const net::Peer peer_;
  std::string sent_;
};

// The attempt succeeds in the next iteration.
inline std::unique_ptr<net::ConnectAttempt> ManualLoop::Connect(const Address&, Duration,
                                                                net::FlushStage stage,
                                                                net::ConnectDone done) {
  auto attempt = std::make_unique<Attempt>();
  Post([this, stage, done = std::move(done), alive = std::weak_ptr(attempt->alive)] {
    if (alive.expired()) return;
    done(net::TransportPtr(new Wire(*this, stage), net::TransportDeleter{.loop = this}));
  });
  return attempt;
}

}  // namespace sluice::test
