#include "store/redis/redis_loop.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>

#include <fmt/format.h>

#include "base/log.h"
#include "store/redis/script.h"

namespace sluice::redis {
namespace {

std::string_view TextOf(const redisReply& reply) { return {reply.str, reply.len}; }

// Errors that another attempt at connecting may cure: the server is starting, or is a replica now
// and its name may lead to the new primary.
bool WantsReconnect(std::string_view error) {
  return error.starts_with("LOADING") || error.starts_with("READONLY") ||
         error.starts_with("NOAUTH");
}

}  // namespace

RedisLoop::RedisLoop(std::string name, const RedisUrl& url, const Options& options)
    : options_(options),
      metrics_(options.metrics != nullptr ? *options.metrics : unseen_metrics_, name),
      work_(io_.get_executor()),
      timer_(io_),
      connection_(io_, url, *this),
      thread_(std::move(name), [this] {
        {
          const Turn turn(*this);
          connection_.Start();
        }
        io_.run();
      }) {}

RedisLoop::~RedisLoop() {
  boost::asio::post(io_, [this] {
    const Turn turn(*this);
    connection_.Stop();
    timer_.cancel();
    work_.reset();
    io_.stop();
  });
  thread_.Join();
}

void RedisLoop::Submit(StoreCheck& check) {
  StoreCheck* newest = inbox_.load(std::memory_order_relaxed);
  do {
    check.next = newest;
  } while (!inbox_.compare_exchange_weak(newest, &check));
  // Whoever finds the inbox empty sees to it; the others know that somebody does.
  if (newest == nullptr) DrainUnlessTaken();
}

void RedisLoop::Reset(StoreReset& reset) {
  boost::asio::post(io_, [this, &reset] {
    const Turn turn(*this);
    SendReset(reset);
  });
}

void RedisLoop::BeginBurst() { ++bursts_; }

void RedisLoop::EndBurst() {
  --bursts_;
  Hold held = Hold::kBurst;
  if (hold_.compare_exchange_strong(held, Hold::kBurstEnded)) DrainUnlessTaken();
}

void RedisLoop::BeginTurn() {
  turn_.lock();
  turn_of_.store(std::this_thread::get_id());
}

void RedisLoop::EndTurn() {
  together_.reset();
  turn_of_.store({});
  turn_.unlock();
  DrainUnlessTaken();
}

bool RedisLoop::HasWork() const {
  return inbox_.load() != nullptr || hold_.load() == Hold::kBurstEnded;
}

// Whoever has the turn looks for work after letting go of it: what is left by one who has found it
// taken is seen. An answer may make its owner submit the next check at once: that one waits for the
// end of the turn in which it was answered.
void RedisLoop::DrainUnlessTaken() {
  while (HasWork() && !HasTurn() && turn_.try_lock()) {
    turn_of_.store(std::this_thread::get_id());
    Drain();
    turn_of_.store({});
    turn_.unlock();
  }
}

bool RedisLoop::WaitUntilReady(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return ready_changed_.WaitUntil(mutex_, deadline,
                                  [this]() SLUICE_REQUIRES(mutex_) { return ready_; });
}

void RedisLoop::Drain() {
  StoreCheck* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
  StoreCheck* oldest = nullptr;
  while (newest != nullptr) {
    StoreCheck* const older = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = older;
  }
  const SteadyTime now = SteadyNow();
  while (oldest != nullptr) {
    StoreCheck& check = *oldest;
    oldest = check.next;
    Accept(check, now);
  }
  SendWhatMayGo();
}

void RedisLoop::Accept(StoreCheck& check, SteadyTime now) {
  ++waiting_;
  if (!connection_.ready()) return Fail(check, StoreFailure::kUnreachable);
  if (waiting_ > options_.max_pending) return Fail(check, StoreFailure::kOverloaded);
  if (check.deadline <= now) return Fail(check, StoreFailure::kTimeout);
  ArmTimer(check.deadline);
  gathering_.Add(check);
}

void RedisLoop::SendWhatMayGo() {
  metrics_.ShowWaiting(waiting_);
  const bool hold = DecideHold();  // in any case: the end of a burst counts as work till then
  if (!connection_.ready()) return;
  while (!gathering_.empty() &&
         ((in_flight_.empty() && !hold) || gathering_.runs() >= ScriptCall::kMaxRuns)) {
    SendPack();
  }
  connection_.Flush();
}

bool RedisLoop::DecideHold() {
  const bool ended = hold_.exchange(Hold::kNone) == Hold::kBurstEnded;
  const bool worth_it = in_flight_.empty() && !gathering_.empty() && waiting_ < kMaxHeld &&
                        waiting_ >= kMinHeldRun * gathering_.runs();
  if (ended || !worth_it) return false;
  hold_.store(Hold::kBurst);
  // Asked for last: whoever ends the last burst from now on sees that it is waited for.
  if (bursts_.load() > 0) return true;
  hold_.store(Hold::kNone);
  return false;
}

void RedisLoop::SendPack() {
  auto call = TakeSpare();
  script_call_.Clear();
  for (; !gathering_.empty() && script_call_.HasRoomFor(*gathering_.front().first);
       gathering_.PopFront()) {
    const Gathering::Run& run = gathering_.front();
    script_call_.Add(*run.first, static_cast<std::int64_t>(run.n));
    call->runs.push_back({.begin = call->checks.size(),
                          .n = run.n,
                          .reply_numbers = ScriptReply::NumbersFor(*run.first)});
    for (StoreCheck* check = run.first; check != nullptr; check = check->next) {
      call->checks.push_back(check);
    }
  }
  command_.assign({"EVALSHA", kCheckScript.sha1});
  const auto arguments =
      script_call_.Arguments(options_.clock != nullptr ? options_.clock->Now() : Time());
  command_.insert(command_.end(), arguments.begin(), arguments.end());
  connection_.Send(command_);
  call->sent = SteadyNow();
  in_flight_.push_back(std::move(call));
  metrics_.CountScriptCall();
}

// Rare, so it does not wait its turn behind what gathers.
void RedisLoop::SendReset(StoreReset& reset) {
  const SteadyTime now = SteadyNow();
  if (!connection_.ready()) return Finish(reset, StoreFailure::kUnreachable);
  if (reset.deadline <= now) return Finish(reset, StoreFailure::kTimeout);
  ArmTimer(reset.deadline);
  command_.assign(1, "UNLINK");
  command_.insert(command_.end(), reset.keys.begin(), reset.keys.end());
  connection_.Send(command_);
  connection_.Flush();
  in_flight_.push_back(TakeSpare());
  in_flight_.back()->reset = &reset;
  in_flight_.back()->sent = now;
}

void RedisLoop::OnReady() {
  metrics_.OnReady();
  SetReady(true);
}

void RedisLoop::OnReply(const redisReply& reply) {
  last_reply_ = SteadyNow();
  auto call = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (call->checks.size() > 1) AnswerTogether();
  if (reply.type == REDIS_REPLY_ERROR) {
    OnError(*call, TextOf(reply));
  } else if (!call->runs.empty()) {
    Deliver(*call, reply);
  } else if (call->reset != nullptr) {
    Finish(*std::exchange(call->reset, nullptr), std::nullopt);
  }
  call->runs.clear();
  call->checks.clear();
  spare_.push_back(std::move(call));
}

void RedisLoop::OnIdle() { Drain(); }

// Not only while they are given: so the next pack is on its way before the answers to this one.
void RedisLoop::AnswerTogether() {
  if (!together_) together_.emplace();
}

void RedisLoop::OnDown() {
  AnswerTogether();
  metrics_.OnDown();
  SetReady(false);
  // What was sent may have been decided; what was not, has not.
  for (auto& call : std::exchange(in_flight_, {})) FailAll(*call, StoreFailure::kTimeout);
  FailOverdueGathered(SteadyTime::max(), StoreFailure::kUnreachable);
  metrics_.ShowWaiting(waiting_);
}

void RedisLoop::Deliver(InFlight& call, const redisReply& reply) {
  std::vector<std::string_view> elements;
  for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; ++i) {
    elements.push_back(TextOf(*reply.element[i]));
  }
  auto opened = ScriptReply::Open(std::move(elements));
  if (!opened) return OnError(call, opened.error().message);
  connection_.ResetBackoff();
  for (const InFlight::Run& run : call.runs) {
    if (!DeliverRun(call, run, *opened)) {
      return OnError(call, "the reply of the check script is too short");
    }
  }
}

// Hands the grants out in order of arrival. False if the reply ends too early.
bool RedisLoop::DeliverRun(InFlight& call, const InFlight::Run& run, ScriptReply& reply) {
  const auto begin = call.checks.begin() + static_cast<std::ptrdiff_t>(run.begin);
  const auto end = begin + static_cast<std::ptrdiff_t>(run.n);
  const auto alive = std::find_if(begin, end, [](StoreCheck* check) { return check != nullptr; });
  if (alive == end) return reply.Skip(run.reply_numbers);
  if (!reply.Next(**alive, static_cast<std::int64_t>(run.n), run_reply_)) return false;
  if (!run_reply_.error.empty()) ReportError(run_reply_.error);
  for (auto check = begin; check != end; ++check) {
    if (*check == nullptr) continue;
    StoreCheck& answered = *std::exchange(*check, nullptr);
    if (!run_reply_.error.empty()) {
      Fail(answered, StoreFailure::kRejected);
      continue;
    }
    run_reply_.Answer(answered, check - begin);
    --waiting_;
    answered.OnDecided();
  }
  return true;
}

void RedisLoop::OnError(InFlight& call, std::string_view error) {
  // Nothing has run: the one error after which a check may be sent again.
  if (error.starts_with("NOSCRIPT")) {
    metrics_.CountError(error);
    return SendAgain(call);
  }
  ReportError(error);
  FailAll(call, StoreFailure::kRejected);
  if (WantsReconnect(error)) connection_.Restart(error);
}

void RedisLoop::SendAgain(InFlight& call) {
  connection_.Send(std::array<std::string_view, 3>{"SCRIPT", "LOAD", kCheckScript.text});
  in_flight_.push_back(TakeSpare());
  const SteadyTime now = SteadyNow();
  in_flight_.back()->sent = now;
  for (StoreCheck*& slot : call.checks) {
    if (slot == nullptr) continue;
    --waiting_;
    Accept(*std::exchange(slot, nullptr), now);
  }
}

void RedisLoop::FailAll(InFlight& call, StoreFailure failure) {
  for (StoreCheck*& slot : call.checks) {
    if (slot != nullptr) Fail(*std::exchange(slot, nullptr), failure);
  }
  if (call.reset != nullptr) Finish(*std::exchange(call.reset, nullptr), failure);
}

void RedisLoop::Fail(StoreCheck& check, StoreFailure failure) {
  --waiting_;
  check.failure = failure;
  check.OnDecided();
}

void RedisLoop::Finish(StoreReset& reset, std::optional<StoreFailure> failure) {
  reset.failure = failure;
  reset.OnReset();
}

// The same error may come with every reply: all are counted, one line a minute tells it.
void RedisLoop::ReportError(std::string_view error) {
  metrics_.CountError(error);
  const SteadyTime now = SteadyNow();
  if (now < next_error_log_) return;
  next_error_log_ = now + std::chrono::minutes(1);
  spdlog::error(
      "redis answers checks with an error: {}; they are decided by on_store_failure "
      "(told at most once a minute)",
      error);
}

void RedisLoop::ArmTimer(SteadyTime deadline) {
  if (deadline >= timer_at_) return;
  timer_at_ = deadline;
  timer_.expires_at(deadline);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const Turn turn(*this);
    OnTimer();
  });
}

void RedisLoop::OnTimer() {
  AnswerTogether();
  timer_at_ = SteadyTime::max();
  const SteadyTime now = SteadyNow();
  SteadyTime next = SteadyTime::max();
  for (const auto& call : in_flight_) {
    for (StoreCheck*& slot : call->checks) {
      if (slot == nullptr) continue;
      if (slot->deadline <= now) {
        Fail(*std::exchange(slot, nullptr), StoreFailure::kTimeout);
      } else {
        next = std::min(next, slot->deadline);
      }
    }
    if (call->reset == nullptr) continue;
    if (call->reset->deadline <= now) {
      Finish(*std::exchange(call->reset, nullptr), StoreFailure::kTimeout);
    } else {
      next = std::min(next, call->reset->deadline);
    }
  }
  // After those in flight, which came before them.
  FailOverdueGathered(now, StoreFailure::kTimeout);
  next = std::min(next, gathering_.EarliestDeadline());
  if (!in_flight_.empty()) {
    const SteadyTime silent_since = std::max(last_reply_, in_flight_.front()->sent);
    if (now - silent_since >= options_.silence) {
      together_.reset();  // they need not wait for the log
      return connection_.Restart(fmt::format("no reply for {} ms", options_.silence.count()));
    }
    next = std::min(next, silent_since + options_.silence);
  }
  if (next != SteadyTime::max()) ArmTimer(next);
}

void RedisLoop::FailOverdueGathered(SteadyTime now, StoreFailure failure) {
  StoreCheck* check = gathering_.TakeExpired(now);
  while (check != nullptr) {
    StoreCheck* const next = check->next;
    Fail(*check, failure);
    check = next;
  }
}

std::unique_ptr<RedisLoop::InFlight> RedisLoop::TakeSpare() {
  if (spare_.empty()) return std::make_unique<InFlight>();
  auto call = std::move(spare_.back());
  spare_.pop_back();
  return call;
}

void RedisLoop::SetReady(bool ready) {
  const MutexLock lock(mutex_);
  ready_ = ready;
  ready_changed_.NotifyAll();
}

}  // namespace sluice::redis
