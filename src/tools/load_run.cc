#include "tools/load_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/duration.h"

namespace sluice::tools {

double LoadTally::rate() const {
  if (elapsed <= Duration::zero()) return 0;
  return static_cast<double>(finished()) / std::chrono::duration<double>(elapsed).count();
}

LoadRun::LoadRun(Client& client, v1::CheckLimitRequest request, const LoadOptions& options)
    : request_(std::move(request)),
      options_(options),
      start_(SteadyNow()),
      loop_(client),
      sender_("sluice-load", [this] { Send(); }) {}

LoadRun::~LoadRun() {
  Stop();
  sender_.Join();
}

bool LoadRun::WaitUntil(SteadyTime deadline) {
  MutexLock lock(mutex_);
  return ended_.WaitUntil(mutex_, deadline, [this] { return complete_; });
}

void LoadRun::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  room_.NotifyAll();
  ended_.NotifyAll();
}

LoadTally LoadRun::tally() const {
  MutexLock lock(mutex_);
  LoadTally tally = tally_;
  if (!complete_) tally.elapsed = std::chrono::duration_cast<Duration>(SteadyNow() - start_);
  return tally;
}

void LoadRun::Send() {
  for (std::uint64_t i = 0; i < options_.checks; ++i) {
    SteadyTime since = start_;
    if (options_.rate > 0) {
      since += std::chrono::duration_cast<SteadyTime::duration>(
          std::chrono::duration<double>(static_cast<double>(i) / options_.rate));
    }
    if (!WaitForTurn(since)) break;
    if (options_.rate == 0) since = SteadyNow();
    loop_.Start(request_, options_.timeout,
                [this, since](const auto& answer) { Record(answer, since); });
  }
  WaitForCallers();
}

// Waits until it is `due` and a caller is free for a check, and takes it; false if stopped.
bool LoadRun::WaitForTurn(SteadyTime due) {
  MutexLock lock(mutex_);
  if (ended_.WaitUntil(mutex_, due, [this] { return stopped_; })) return false;
  SleepUntil([this] { return under_way_ + asleep_.size() < options_.concurrency; });
  if (stopped_) return false;
  ++under_way_;
  return true;
}

// Waits for the last answers and the last sleeps.
void LoadRun::WaitForCallers() {
  MutexLock lock(mutex_);
  SleepUntil([this] { return under_way_ == 0 && asleep_.empty(); });
  room_.Wait(mutex_, [this] { return under_way_ == 0; });
  complete_ = true;
  ended_.NotifyAll();
}

// Waits until `done` or stopped, and wakes callers whose time has come meanwhile.
void LoadRun::SleepUntil(const std::function<bool()>& done) {
  while (!stopped_ && !done()) {
    if (asleep_.empty()) {
      room_.Wait(mutex_, [&] { return stopped_ || done() || !asleep_.empty(); });
      continue;
    }
    const SteadyTime first = asleep_.top();
    const auto changed = [&] { return stopped_ || done() || asleep_.top() < first; };
    if (room_.WaitUntil(mutex_, first, changed)) continue;
    asleep_.pop();
    tally_.elapsed = std::max(tally_.elapsed, std::chrono::ceil<Duration>(first - start_));
  }
}

void LoadRun::Record(const Result<v1::CheckLimitResponse>& answer, SteadyTime since) {
  const SteadyTime now = SteadyNow();
  MutexLock lock(mutex_);
  tally_.elapsed = std::chrono::duration_cast<Duration>(now - start_);
  if (!answer) {
    ++tally_.failed;
    LoadTally::Failures& failures = tally_.errors[answer.error().code];
    if (failures.count++ == 0) failures.first = answer.error().message;
  } else {
    ++(answer->decision() == v1::DECISION_ALLOWED ? tally_.allowed : tally_.denied);
    tally_.latencies.Add(std::chrono::duration_cast<Duration>(now - since));
    if (answer->has_wait()) {
      const Duration wait = ToDuration(answer->wait());
      tally_.waits.Add(wait);
      tally_.waited += wait;
      if (options_.sleep) asleep_.push(now + wait);
    }
  }
  --under_way_;
  room_.NotifyAll();
}

}  // namespace sluice::tools
