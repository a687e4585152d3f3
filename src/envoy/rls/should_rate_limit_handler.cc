#include "envoy/rls/should_rate_limit_handler.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "api/status.h"
#include "envoy/rls/response_writer.h"

namespace sluice::envoy {
namespace {

// The memory of larger calls is freed.
constexpr std::size_t kMaxKeptChecks = 8;
constexpr std::size_t kMaxKeptBytes = 256 * 1024;

// If there are more descriptors, they are not compared with each other.
constexpr std::size_t kMaxCompared = 8;

}  // namespace

void ShouldRateLimitHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  const Caller* caller = nullptr;
  if (parts_.access != nullptr) {
    const auto known = parts_.access->Identify(call);
    if (!known) return Finish(ToStatus(known.error()));
    caller = *known;
  }
  if (const auto parsed = ParseRequest(bytes, request_); !parsed) {
    return Finish(ToStatus(parsed.error()));
  }
  // The same message and code as of Envoy's service.
  if (request_.domain.empty()) {
    return Finish({rpc::StatusCode::kUnknown, "rate limit domain must not be empty"});
  }
  if (request_.descriptors.empty()) {
    return Finish({rpc::StatusCode::kUnknown, "rate limit descriptor list must not be empty"});
  }
  if (caller != nullptr) {
    if (const auto may = MayAsk(*caller); !may) return Finish(ToStatus(may.error()));
  }
  Begin(call);
  if (domain_ != nullptr) FollowAll(*domain_);
  DropReplaced();
  terms_.in_order = MayShareCounters();
  StartSome();
}

// A hit requires kConsume, although hits over the limit are counted, too.
Result<void> ShouldRateLimitHandler::MayAsk(const Caller& caller) const {
  for (const RequestedDescriptor& descriptor : request_.descriptors) {
    CallerRight right = CallerRight::kConsume;
    if (descriptor.is_negative) right = CallerRight::kRefund;
    if (request_.HitsOf(descriptor) == 0) right = CallerRight::kPeek;
    if (auto may = parts_.access->MayAsk(caller, request_.domain, right); !may) return may;
  }
  return {};
}

void ShouldRateLimitHandler::Begin(const rpc::Call& call) {
  auto rules = parts_.limiter.RulesForThisThread();
  const auto* const guide = static_cast<const Guide*>(rules->index->guide());
  domain_ = guide == nullptr ? nullptr : guide->Find(request_.domain);
  const bool all_or_nothing = domain_ != nullptr && domain_->all_or_nothing;
  terms_ = {.domain = request_.domain,
            .rules = std::move(rules),
            .received = call.received(),
            .deadline = call.deadline(),
            .count_denied = parts_.options.count_denied && !all_or_nothing};
  statuses_.assign(request_.descriptors.size(), Status{});
  check_count_ = started_ = 0;
  positions_.clear();
  passed_.clear();
  gives_back_ = cancelled_ = false;
}

// Finds the target of each descriptor. Descriptors without a check get their status here.
void ShouldRateLimitHandler::FollowAll(const DomainGuide& domain) {
  for (std::size_t i = 0; i < request_.descriptors.size(); ++i) {
    const RequestedDescriptor& descriptor = request_.descriptors[i];
    const auto entries = request_.EntriesOf(descriptor);
    DescriptorCheck& check = NextCheck();
    if (descriptor.limit) {
      check.BringLimit(*descriptor.limit, entries);
    } else {
      check.FollowTo(domain, entries);
      if (parts_.options.dynamic_metadata) {
        passed_.insert(passed_.end(), check.passed().begin(), check.passed().end());
      }
      if (check.target() == nullptr) continue;
    }
    check.SetHits(request_.HitsOf(descriptor), descriptor.is_negative);
    positions_.push_back(i);
    ++check_count_;
  }
}

// A limit may replace others by name. Descriptors with a replaced limit are allowed and not
// counted.
void ShouldRateLimitHandler::DropReplaced() {
  std::unordered_set<std::string_view> replaced;
  for (std::size_t i = 0; i < check_count_; ++i) {
    const Target* const target = checks_[i]->target();
    if (target == nullptr) continue;
    replaced.insert(target->replaces.begin(), target->replaces.end());
  }
  if (replaced.empty()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < check_count_; ++i) {
    const Target* const target = checks_[i]->target();
    if (target != nullptr && !target->name.empty() && replaced.contains(target->name)) continue;
    std::swap(checks_[kept], checks_[i]);
    positions_[kept++] = positions_[i];
  }
  check_count_ = kept;
  positions_.resize(kept);
}

// Whether two checks may use the same counter. Only then does their order matter.
bool ShouldRateLimitHandler::MayShareCounters() const {
  if (check_count_ > kMaxCompared) return true;
  for (std::size_t i = 1; i < check_count_; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (checks_[i]->counter() == checks_[j]->counter()) return true;
    }
  }
  return false;
}

DescriptorCheck& ShouldRateLimitHandler::NextCheck() {
  if (check_count_ == checks_.size()) {
    DescriptorCheck::Owner& owner = *this;
    checks_.push_back(std::make_unique<DescriptorCheck>(parts_.limiter, owner));
  }
  return *checks_[check_count_];
}

// A refund makes room for the checks that follow it, so these ask the store even if this server
// remembers a denial.
void ShouldRateLimitHandler::StartSome() {
  if (started_ == 0) undecided_ = check_count_;
  ++undecided_;
  if (cancelled_) {
    CountDecided(check_count_ - started_);
    check_count_ = started_;
  }
  const std::size_t end = std::min(check_count_, started_ + kChecksPerIteration);
  while (started_ < end) {
    DescriptorCheck& check = *checks_[started_];
    check.Start(terms_, positions_[started_++]);
    terms_.ask_store |= check.is_negative();
  }
  if (started_ < check_count_) parts_.loop.Post([this] { StartSome(); });
  CountDecided(1);
}

void ShouldRateLimitHandler::OnDecided(DescriptorCheck& check, const Error* error) {
  if (error != nullptr) {
    if (!error_) error_ = *error;
  } else {
    if (!gives_back_) parts_.counters.Count(request_.domain, check);
    Status& status = statuses_[check.position()];
    status = check.status();
    status.quota |= parts_.options.quota_mode;
  }
  CountDecided(1);
}

void ShouldRateLimitHandler::CountDecided(std::size_t count) {
  undecided_ -= count;
  if (undecided_ > 0) return;
  if (!gives_back_ && TakesBack()) return GiveBackAll();
  FinishWithStatuses();
}

bool ShouldRateLimitHandler::TakesBack() const {
  if (terms_.count_denied) return false;
  if (!error_ && OverallCode(statuses_) == Code::kOk) return false;
  return std::any_of(checks_.begin(), checks_.begin() + static_cast<std::ptrdiff_t>(check_count_),
                     [](const auto& check) { return check->took() && !check->is_negative(); });
}

void ShouldRateLimitHandler::GiveBackAll() {
  gives_back_ = true;
  undecided_ = 1;
  for (std::size_t i = 0; i < check_count_; ++i) {
    DescriptorCheck& check = *checks_[i];
    if (!check.took() || check.is_negative()) continue;
    ++undecided_;
    check.GiveBack(terms_);
  }
  CountDecided(1);
}

void ShouldRateLimitHandler::FinishWithStatuses() {
  if (error_) {
    const Error error = *std::exchange(error_, std::nullopt);
    ForgetCall();
    return Finish(ToStatus(error));
  }
  std::string& response = parts_.response;
  response.clear();
  WriteResponse(
      {.options = parts_.options, .request = request_, .statuses = statuses_, .passed = passed_},
      response);
  ForgetCall();
  Finish(response);
  if (response.capacity() > kMaxKeptBytes) response = std::string();
}

// A handler that waits for its next call must keep neither replaced rules nor much memory.
void ShouldRateLimitHandler::ForgetCall() {
  terms_.rules = nullptr;
  domain_ = nullptr;
  if (checks_.size() <= kMaxKeptChecks) return;
  checks_.resize(kMaxKeptChecks);
  request_ = Request();
  positions_ = {};
  statuses_ = {};
  passed_ = {};
}

}  // namespace sluice::envoy
