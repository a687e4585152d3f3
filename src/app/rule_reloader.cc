#include "app/rule_reloader.h"

#include <malloc.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "match/rule_difference.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// However long the changes go on, they are looked at that often.
constexpr milliseconds kLongestSettle(2'000);

// How often it is asked whether the last call with replaced rules is over.
constexpr milliseconds kFreePeriod(50);

// The calls of a moment matter more than when new rules begin: with this, a busy server leaves the
// thread about a tenth of a core.
constexpr int kNicer = 10;

constexpr std::size_t kMistakesLogged = 1'000;

constexpr std::size_t kManyRules = 10'000;

// Memory freed by reading, or with, so many rules would else lie idle until the next reload. Few
// are not worth the while it takes.
void GiveBackMemory(std::size_t rules) {
  if (rules >= kManyRules) malloc_trim(0);
}

int RemainingMilliseconds(SteadyTime until) {
  const auto remaining = std::chrono::ceil<milliseconds>(until - SteadyNow());
  return static_cast<int>(std::max(remaining, milliseconds(0)).count());
}

double ToSeconds(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

RuleReloader::RuleReloader(const Parts& parts, Options options, RuleReading first)
    : parts_(parts),
      options_(std::move(options)),
      last_success_(parts.metrics.GaugeFor("sluice_rules_last_reload_success",
                                           "Whether the rules last read were free of mistakes.")),
      last_time_(parts.metrics.GaugeFor("sluice_rules_last_reload_timestamp_seconds",
                                        "When rules without mistakes were last read.")),
      loaded_(parts.metrics.GaugeFor("sluice_rules_loaded", "Rules in force.")),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watch_(options_.directory) {
  PutInForce(std::move(first));
  spdlog::info("rules: {} in force", RulesInForceNow());
  thread_ = Thread("rules", [this] { Run(); });
}

RuleReloader::~RuleReloader() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  Ask();
  thread_.Join();
  close(wake_);
}

ReloadResult RuleReloader::Reload() {
  const std::uint64_t ticket = Ask();
  MutexLock lock(mutex_);
  answered_.Wait(mutex_, [&]() SLUICE_REQUIRES(mutex_) { return served_ >= ticket; });
  return result_;
}

void RuleReloader::RequestReload() { Ask(); }

std::uint64_t RuleReloader::Ask() {
  const MutexLock lock(mutex_);
  eventfd_write(wake_, 1);
  return ++asked_;
}

void RuleReloader::Run() {
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);  // of this thread alone
  // The files may have changed since they were read at start.
  first_change_ = due_ = SteadyNow();
  do {
    LookIfDue();
    WaitForWork();
    FreeReplaced();
    NoteChanges();
  } while (AnswerRequests());
}

void RuleReloader::WaitForWork() {
  int timeout = -1;
  if (due_) timeout = RemainingMilliseconds(*due_);
  if (!replaced_.empty()) {
    const int period = static_cast<int>(kFreePeriod.count());
    timeout = timeout < 0 ? period : std::min(timeout, period);
  }
  std::array<pollfd, 2> sources{{{.fd = wake_, .events = POLLIN, .revents = 0},
                                 {.fd = watch_.descriptor(), .events = POLLIN, .revents = 0}}};
  poll(sources.data(), sources.size(), timeout);
  eventfd_t ignored;
  eventfd_read(wake_, &ignored);
}

void RuleReloader::FreeReplaced() {
  std::size_t freed = 0;
  std::erase_if(replaced_, [&](const auto& rules) {
    if (rules.use_count() > 1) return false;
    freed += rules->index->size();
    return true;
  });
  GiveBackMemory(freed);
}

void RuleReloader::NoteChanges() {
  if (!watch_.TakeChanges()) return;
  const SteadyTime now = SteadyNow();
  if (!first_change_) first_change_ = now;
  due_ = std::min(now + options_.settle, *first_change_ + kLongestSettle);
  second_look_ = false;
}

// Returns false when it is time to stop.
bool RuleReloader::AnswerRequests() {
  std::uint64_t asked = 0;
  {
    const MutexLock lock(mutex_);
    if (served_ == asked_) return true;
    asked = asked_;
    if (stopping_) {
      result_ = {.applied = false, .errors = {"the server is stopping"}};
      served_ = asked;
      answered_.NotifyAll();
      return false;
    }
  }
  ReloadResult result = Load(Reason::kAsked);
  const MutexLock lock(mutex_);
  result_ = std::move(result);
  served_ = asked;
  answered_.NotifyAll();
  return true;
}

void RuleReloader::LookIfDue() {
  if (!due_ || SteadyNow() < *due_) return;
  due_.reset();
  const bool last = second_look_ || SteadyNow() - *first_change_ >= kLongestSettle;
  const bool applied = Load(last ? Reason::kStillChanged : Reason::kChanged).applied;
  if (applied || last) {
    first_change_.reset();
    second_look_ = false;
  } else {
    due_ = SteadyNow() + options_.second_look;
    second_look_ = true;
  }
}

ReloadResult RuleReloader::Load(Reason reason) {
  if (options_.directory.empty()) {
    if (reason == Reason::kAsked) spdlog::warn("rules: nothing to reload (give --rules DIR)");
    return {.applied = false, .errors = {"there is no directory to read: give --rules DIR"}};
  }
  RenewWatch();
  RuleTexts texts = ReadRuleFiles(options_.directory);
  RuleReading reading;
  if (texts.errors.empty() && texts.fingerprint == fingerprint_) {
    spdlog::debug("rules: the files say what is in force");
    NoteSuccess();
  } else {
    reading = IndexRules(std::move(texts), options_.index);
    if (reading.ok() && reading.index->size() == 0 && RulesInForceNow() > 0) {
      reading.mistakes.push_back(options_.directory +
                                 ": found no rules at all; to have none, restart");
    }
    reading.ok() ? Replace(std::move(reading)) : Refuse(reading.mistakes, reason);
  }
  return {.applied = reading.ok(),
          .errors = std::move(reading.mistakes),
          .rules = RulesInForceNow(),
          .loaded_at = loaded_at_};
}

// Before the files are read: what has changed until now will be seen, what changes from now on will
// be noticed.
void RuleReloader::RenewWatch() {
  const auto renewed = watch_.Renew();
  if (!renewed && !watch_failed_) {
    spdlog::warn("rules: changes in {} may go unnoticed ({}); SIGHUP makes sluiced read it",
                 options_.directory, renewed.error().message);
  }
  watch_failed_ = !renewed;
  watch_.TakeChanges();
}

void RuleReloader::Replace(RuleReading reading) {
  auto old = parts_.limiter.rules();
  PutInForce(std::move(reading));
  spdlog::info("rules: {} in force, {}", RulesInForceNow(),
               Compare(*old->index, *parts_.limiter.rules()->index).ToString());
  replaced_.push_back(std::move(old));
}

void RuleReloader::PutInForce(RuleReading reading) {
  GiveBackMemory(reading.index->size());  // what reading them took
  parts_.limiter.SetRules(std::move(reading.index));
  fingerprint_ = std::move(reading.fingerprint);
  loaded_at_ = parts_.clock.Now();
  loaded_.Set(static_cast<double>(RulesInForceNow()));
  NoteSuccess();
}

void RuleReloader::NoteSuccess() {
  if (!mistakes_.empty()) spdlog::info("rules: no mistakes any more");
  mistakes_.clear();
  last_success_.Set(1);
  last_time_.Set(ToSeconds(parts_.clock.Now()));
}

void RuleReloader::Refuse(const std::vector<std::string>& mistakes, Reason reason) {
  if (reason == Reason::kChanged || (reason == Reason::kStillChanged && mistakes == mistakes_)) {
    spdlog::debug("rules: {} mistakes, {}", mistakes.size(),
                  reason == Reason::kChanged ? "looking again soon" : "as before");
    return;
  }
  last_success_.Set(0);
  mistakes_ = mistakes;
  spdlog::error("rules: refused for {} mistake{}; the {} in force stay until the files are correct",
                mistakes.size(), mistakes.size() == 1 ? "" : "s", RulesInForceNow());
  const auto shown = std::min(mistakes.size(), kMistakesLogged);
  for (std::size_t i = 0; i < shown; ++i) spdlog::error("rules: {}", mistakes[i]);
  if (shown < mistakes.size()) spdlog::error("rules: and {} more", mistakes.size() - shown);
}

std::size_t RuleReloader::RulesInForceNow() const { return parts_.limiter.rules()->index->size(); }

}  // namespace sluice
