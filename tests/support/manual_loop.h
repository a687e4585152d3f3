// A loop that turns when the test says so, without connections.
//
// Of one thread.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "net/loop.h"
#include "net/socket.h"

namespace sluice::test {

class ManualLoop final : public net::Loop {
 public:
  ManualLoop() : Loop(0, 1), time_(now()) { SetCurrent(this); }
  ~ManualLoop() override { SetCurrent(nullptr); }

  // One turn: `input` stands for what was ready to be read.
  void Turn(const Task& input = [] {}) {
    time_ += std::chrono::microseconds(1);
    BeginTurn(time_);
    input();
    for (const Task& task : std::exchange(tasks_, {})) task();
    EndTurn();
  }

  // Until nothing is posted. Returns how many turns it took.
  int TurnUntilIdle() {
    int turns = 0;
    for (; !tasks_.empty(); ++turns) Turn();
    return turns;
  }

  void Advance(Duration by) { time_ += by; }

  void Post(Task task) override { tasks_.push_back(std::move(task)); }
  net::TransportPtr Adopt(net::Socket, net::FlushStage) override { std::abort(); }
  std::unique_ptr<net::ConnectAttempt> Connect(const Address&, Duration, net::FlushStage,
                                               net::ConnectDone) override {
    std::abort();
  }

 private:
  SteadyTime time_;
  std::vector<Task> tasks_;
};

}  // namespace sluice::test
