#include "app/rule_reloader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "match/rule_difference.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// Even if changes continue, the files are read at most this long after the first change.
constexpr milliseconds kLongestSettle(2'000);

// How often to test whether the last call that uses replaced rules has ended.
constexpr milliseconds kFreePeriod(50);

constexpr std::size_t kMistakesLogged = 1'000;

int RemainingMilliseconds(SteadyTime until) {
  const auto remaining = std::chrono::ceil<milliseconds>(until - SteadyNow());
  return static_cast<int>(std::max(remaining, milliseconds(0)).count());
}

double ToSeconds(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// 48 bits of a digest: a double holds them exactly.
double ToNumber(const std::string& fingerprint) {
  const auto digest = Sha256Prefix128(fingerprint);
  return std::accumulate(digest.begin(), digest.begin() + 6, 0.0,
                         [](double number, std::uint8_t byte) { return number * 256 + byte; });
}

}  // namespace

RuleReloader::RuleReloader(const Dependencies& dependencies, Options options, RuleReading first)
    : dependencies_(dependencies),
      options_(std::move(options)),
      last_success_(dependencies.metrics.GaugeFor("sluice_rules_last_reload_success",
                                                  "1 if the last reload was without mistakes, 0 if "
                                                  "it failed and the old rules stay in force.")),
      last_time_(dependencies.metrics.GaugeFor("sluice_rules_last_reload_timestamp_seconds",
                                               "Time of the last reload without mistakes.")),
      loaded_(dependencies.metrics.GaugeFor("sluice_rules_loaded", "Rules in force.")),
      shown_fingerprint_(dependencies.metrics.GaugeFor(
          "sluice_rules_fingerprint",
          "A number computed from the rules in force. It is equal on servers with equal files and "
          "equal xDS sets.")),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      watch_(options_.sources.directory, {}),
      envoy_watch_(options_.sources.envoy_directory, envoy::kRuleFiles) {
  Activate(std::move(first));
  spdlog::info("rules: {} in force", active_rules());
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

void RuleReloader::Offer(envoy::RuleResources set, Done done) {
  const MutexLock lock(mutex_);
  offered_ = {.set = std::make_shared<const envoy::RuleResources>(std::move(set)),
              .done = std::move(done)};
  eventfd_write(wake_, 1);
}

void RuleReloader::Run() {
  LowerPriority();  // serving calls matters more than reading rules quickly
  // The files may have changed since they were read at start.
  first_change_ = due_ = SteadyNow();
  do {
    LookIfDue();
    WaitForWork();
    FreeReplaced();
    NoteChanges();
    TakeOffered();
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
  std::erase_if(replaced_, [](const auto& rules) { return rules.use_count() == 1; });
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

void RuleReloader::TakeOffered() {
  std::optional<Offered> offered;
  {
    const MutexLock lock(mutex_);
    offered = std::exchange(offered_, std::nullopt);
  }
  if (!offered) return;
  waiting_ = std::move(offered);
  Load(Reason::kOffered);
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

// If only the files have mistakes, a set waits until they are fixed. It must not be refused,
// because a control plane does not send a refused set again.
ReloadResult RuleReloader::Load(Reason reason) {
  if (waiting_) {
    ReloadResult result = LoadWith(waiting_->set, reason);
    const bool files_are_at_fault =
        !result.errors.empty() && IndexRules({.resources = waiting_->set}, options_.sources).ok() &&
        !Read(ReadFiles(options_.sources)).ok();
    if (files_are_at_fault) return result;
    std::exchange(waiting_, std::nullopt)->done(result.errors);
    if (result.errors.empty() || reason == Reason::kOffered) return result;
  }
  return LoadWith(resources_, reason);
}

ReloadResult RuleReloader::LoadWith(std::shared_ptr<const envoy::RuleResources> resources,
                                    Reason reason) {
  if (options_.sources.directory.empty() && options_.sources.envoy_directory.empty() &&
      !resources) {
    if (reason == Reason::kAsked) spdlog::warn("rules: nothing to reload (give --rules DIR)");
    return {.applied = false, .errors = {"there is no directory to read: give --rules DIR"}};
  }
  RenewWatches();
  RuleFiles files = ReadFiles(options_.sources);
  files.resources = resources;
  const bool unreadable = !files.own.errors.empty() || !files.envoy.errors.empty();
  RuleReading reading;
  const bool unchanged = !unreadable && files.fingerprint() == active_.fingerprint;
  if (unchanged) {
    spdlog::log(reason >= Reason::kAsked ? spdlog::level::info : spdlog::level::debug,
                "rules: {} in force, unchanged", active_rules());
    NoteSuccess();
  } else {
    reading = Read(std::move(files));
    reading.ok() ? Replace(std::move(reading)) : Refuse(reading.mistakes, reason);
  }
  if (unchanged || reading.ok()) resources_ = std::move(resources);
  return {.applied = reading.ok(),
          .unchanged = unchanged,
          .errors = std::move(reading.mistakes),
          .rules = active_rules(),
          .loaded_at = loaded_at_};
}

RuleReading RuleReloader::Read(RuleFiles files) const {
  RuleReading reading = IndexRules(std::move(files), options_.sources);
  const bool read = reading.ok();
  const auto refuse_empty = [&](const std::string& directory, std::size_t now, std::size_t before) {
    if (directory.empty() || !read || now > 0 || before == 0) return;
    reading.mistakes.push_back(directory + ": found no rules; to remove all rules, restart");
  };
  refuse_empty(options_.sources.directory, reading.own_rules, active_.own_rules);
  refuse_empty(options_.sources.envoy_directory, reading.envoy_rules, active_.envoy_rules);
  return reading;
}

// Called before the files are read, so that no change is missed: a change before this call is read
// with the files, and the watches notice a change after this call.
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
  renew(watch_, options_.sources.directory);
  renew(envoy_watch_, options_.sources.envoy_directory);
  watch_failed_ = failed;
}

void RuleReloader::Replace(RuleReading reading) {
  auto old = dependencies_.limiter.rules();
  Activate(std::move(reading));
  spdlog::info("rules: {} in force, {}", active_rules(),
               DescribeDifference(*old->index, *dependencies_.limiter.rules()->index));
  replaced_.push_back(std::move(old));
}

void RuleReloader::Activate(RuleReading reading) {
  dependencies_.limiter.SetRules(std::move(reading.index));
  active_ = std::move(reading);
  shown_fingerprint_.Set(ToNumber(active_.fingerprint));
  loaded_at_ = dependencies_.clock.Now();
  loaded_.Set(static_cast<double>(active_rules()));
  NoteSuccess();
  options_.on_loaded(true);
}

void RuleReloader::NoteSuccess() {
  if (!mistakes_.empty()) spdlog::info("rules: the mistakes are fixed");
  mistakes_.clear();
  last_success_.Set(1);
  last_time_.Set(ToSeconds(dependencies_.clock.Now()));
}

void RuleReloader::Refuse(const std::vector<std::string>& mistakes, Reason reason) {
  if (reason == Reason::kChanged || (reason == Reason::kStillChanged && mistakes == mistakes_)) {
    spdlog::debug("rules: mistakes: {}, {}", mistakes.size(),
                  reason == Reason::kChanged ? "reading the files again soon" : "as before");
    return;
  }
  last_success_.Set(0);
  options_.on_loaded(false);
  mistakes_ = mistakes;
  spdlog::error(
      "rules: refused for {} mistake{}; until the new rules are fixed, the old rules stay in force "
      "({})",
      mistakes.size(), mistakes.size() == 1 ? "" : "s", active_rules());
  const auto shown = std::min(mistakes.size(), kMistakesLogged);
  for (std::size_t i = 0; i < shown; ++i) spdlog::error("rules: {}", mistakes[i]);
  if (shown < mistakes.size()) spdlog::error("rules: and {} more", mistakes.size() - shown);
}

std::size_t RuleReloader::active_rules() const {
  return dependencies_.limiter.rules()->index->size();
}

}  // namespace sluice
