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
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/log.h"
#include "match/rule_difference.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// The longest delay of a read while changes continue.
constexpr milliseconds kLongestSettle(2'000);

// How often to test whether the last call with replaced rules has ended.
constexpr milliseconds kFreePeriod(50);

// Running calls matter more than an early start of new rules: at this nice level, a busy server
// leaves the thread about a tenth of a core.
constexpr int kNicer = 10;

constexpr std::size_t kMistakesLogged = 1'000;

constexpr std::size_t kManyRules = 10'000;

// Returns free memory to the system. After many rules it would otherwise be unused until the next
// reload. For few rules it is not worth the time.
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

// 48 bits of a digest, which a double holds exactly.
double ToNumber(const std::string& fingerprint) {
  const auto digest = Sha256Prefix128(fingerprint);
  return std::accumulate(digest.begin(), digest.begin() + 6, 0.0,
                         [](double number, std::uint8_t byte) { return number * 256 + byte; });
}

}  // namespace

RuleReloader::RuleReloader(const Parts& parts, Options options, RuleReading first)
    : parts_(parts),
      options_(std::move(options)),
      last_success_(parts.metrics.GaugeFor(
          "sluice_rules_last_reload_success",
          "1 if the last reload was without mistakes, 0 if it failed and the old rules stay.")),
      last_time_(parts.metrics.GaugeFor("sluice_rules_last_reload_timestamp_seconds",
                                        "Time of the last reload without mistakes.")),
      loaded_(parts.metrics.GaugeFor("sluice_rules_loaded", "Rules in force.")),
      shown_fingerprint_(
          parts.metrics.GaugeFor("sluice_rules_fingerprint",
                                 "A number for the rule files in force: equal for equal ones.")),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watch_(options_.directory, {}),
      envoy_watch_(options_.envoy_directory, envoy::kRuleFiles) {
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
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNicer);  // only for this thread
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
  std::array<pollfd, 3> sources{
      {{.fd = wake_, .events = POLLIN, .revents = 0},
       {.fd = watch_.descriptor(), .events = POLLIN, .revents = 0},
       {.fd = envoy_watch_.descriptor(), .events = POLLIN, .revents = 0}}};
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
  const bool own = watch_.TakeChanges();
  const bool envoys = envoy_watch_.TakeChanges();
  if (!own && !envoys) return;
  const SteadyTime now = SteadyNow();
  if (!first_change_) first_change_ = now;
  due_ = std::min(now + options_.settle, *first_change_ + kLongestSettle);
  second_look_ = false;
}

// Returns false if the thread must stop.
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
  options_.on_reloaded(result);
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
  if (options_.directory.empty() && options_.envoy_directory.empty()) {
    if (reason == Reason::kAsked) spdlog::warn("rules: nothing to reload (give --rules DIR)");
    return {.applied = false, .errors = {"there is no directory to read: give --rules DIR"}};
  }
  RenewWatches();
  RuleTexts texts;
  if (!options_.directory.empty()) texts = ReadRuleFiles(options_.directory);
  EnvoyTexts envoy{.texts = {}, .merge_domains = options_.merge_envoy_domains};
  if (!options_.envoy_directory.empty()) {
    envoy.texts = envoy::ReadRuleFiles(options_.envoy_directory);
  }
  const bool unreadable = !texts.errors.empty() || !envoy.texts.errors.empty();
  RuleReading reading;
  const bool unchanged = !unreadable && Fingerprint(texts, envoy) == fingerprint_;
  if (unchanged) {
    spdlog::log(reason == Reason::kAsked ? spdlog::level::info : spdlog::level::debug,
                "rules: {} in force, unchanged", RulesInForceNow());
    NoteSuccess();
  } else {
    reading = IndexRules(std::move(texts), options_.index, std::move(envoy));
    const bool read = reading.ok();
    const auto refuse_empty = [&](const std::string& directory, std::size_t now,
                                  std::size_t before) {
      if (!read || now > 0 || before == 0) return;
      reading.mistakes.push_back(directory + ": found no rules; to remove all rules, restart");
    };
    refuse_empty(options_.directory, reading.own_rules, own_rules_);
    refuse_empty(options_.envoy_directory, reading.envoy_rules, envoy_rules_);
    reading.ok() ? Replace(std::move(reading)) : Refuse(reading.mistakes, reason);
  }
  return {.applied = reading.ok(),
          .unchanged = unchanged,
          .errors = std::move(reading.mistakes),
          .rules = RulesInForceNow(),
          .loaded_at = loaded_at_};
}

// Called before the files are read: earlier changes are then read, and later ones are noticed.
void RuleReloader::RenewWatches() {
  bool failed = false;
  const auto renew = [&](RuleWatch& watch, const std::string& directory) {
    if (directory.empty()) return;
    const auto renewed = watch.Renew();
    if (!renewed && !watch_failed_) {
      spdlog::warn("rules: changes in {} may go unnoticed ({}); send SIGHUP after changes",
                   directory, renewed.error().message);
    }
    failed |= !renewed;
    watch.TakeChanges();
  };
  renew(watch_, options_.directory);
  renew(envoy_watch_, options_.envoy_directory);
  watch_failed_ = failed;
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
  shown_fingerprint_.Set(ToNumber(fingerprint_));
  own_rules_ = reading.own_rules;
  envoy_rules_ = reading.envoy_rules;
  loaded_at_ = parts_.clock.Now();
  loaded_.Set(static_cast<double>(RulesInForceNow()));
  NoteSuccess();
}

void RuleReloader::NoteSuccess() {
  if (!mistakes_.empty()) spdlog::info("rules: the mistakes are fixed");
  mistakes_.clear();
  last_success_.Set(1);
  last_time_.Set(ToSeconds(parts_.clock.Now()));
}

void RuleReloader::Refuse(const std::vector<std::string>& mistakes, Reason reason) {
  if (reason == Reason::kChanged || (reason == Reason::kStillChanged && mistakes == mistakes_)) {
    spdlog::debug("rules: {} mistakes, {}", mistakes.size(),
                  reason == Reason::kChanged ? "reading them again soon" : "as before");
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
