#include "envoy/rls/should_rate_limit_handler.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace sluice::envoy {
namespace {

// If a call exceeds one of these bounds, its memory is freed after the call.
constexpr int kMaxKeptDescriptors = 8;
constexpr std::size_t kMaxKeptBytes = 4096;
constexpr std::size_t kMaxKeptResponseBytes = 256 * 1024;

// If there are more checks, their counters are not compared: two of them are assumed to be equal.
constexpr std::size_t kMaxCompared = 8;

}  // namespace

void ShouldRateLimitHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  request_bytes_ = bytes.size();
  const Caller* caller = nullptr;
  if (dependencies_.access != nullptr) {
    const auto known = dependencies_.access->Identify(call);
    if (!known) return Refuse(ToStatus(known.error()));
    caller = *known;
  }
  if (const auto parsed = ParseRequest(bytes, request_); !parsed) {
    return Refuse(ToStatus(parsed.error()));
  }
  // The message and code of Envoy's service.
  if (request_.domain().empty()) {
    return Refuse({rpc::StatusCode::kUnknown, "rate limit domain must not be empty"});
  }
  if (request_.descriptors().empty()) {
    return Refuse({rpc::StatusCode::kUnknown, "rate limit descriptor list must not be empty"});
  }
  if (caller != nullptr) {
    if (const auto may = MayAsk(*caller); !may) return Refuse(ToStatus(may.error()));
  }
  Begin(call);
  if (domain_ != nullptr) FindLimits(*domain_);
  DropReplaced();
  context_.in_order = MayShareCounters();
  StartSome();
}

// Hits need the right kConsume, not kCharge, although hits over the limit are counted, too.
Result<void> ShouldRateLimitHandler::MayAsk(const Caller& caller) const {
  for (const RequestedDescriptor& descriptor : request_.descriptors()) {
    CallerRight right = CallerRight::kConsume;
    if (descriptor.is_negative_hits()) right = CallerRight::kRefund;
    if (HitsOf(request_, descriptor) == 0) right = CallerRight::kPeek;
    if (auto may = dependencies_.access->MayAsk(caller, request_.domain(), right); !may) return may;
  }
  return {};
}

void ShouldRateLimitHandler::Begin(const rpc::Call& call) {
  auto rules = dependencies_.limiter.RulesForThisThread();
  const auto* const guide = static_cast<const Guide*>(rules->index->guide());
  domain_ = guide == nullptr ? nullptr : guide->Find(request_.domain());
  const bool all_or_nothing = domain_ != nullptr && domain_->all_or_nothing;
  context_ = {.domain = request_.domain(),
              .rules = std::move(rules),
              .received = call.received(),
              .deadline = call.deadline(),
              .count_denied = dependencies_.settings.count_denied && !all_or_nothing,
              .quota_mode = dependencies_.settings.quota_mode,
              .shadow_mode = dependencies_.settings.shadow_mode};
  response_.Clear();
  for (int i = 0; i < request_.descriptors_size(); ++i) {
    response_.add_statuses()->set_code(Response::OK);
  }
  check_count_ = started_ = 0;
  passed_.clear();
  refunds_ = canceled_ = false;
}

// Descriptors without a limit get no check.
void ShouldRateLimitHandler::FindLimits(const DomainGuide& domain) {
  for (int i = 0; i < request_.descriptors_size(); ++i) {
    const RequestedDescriptor& descriptor = request_.descriptors(i);
    ReadEntries(descriptor, entries_);
    DescriptorCheck& check = NextCheck();
    if (descriptor.has_limit()) {
      check.SetOverride(descriptor.limit(), entries_);
    } else {
      check.FindLimit(domain, entries_);
      if (dependencies_.settings.dynamic_metadata) {
        passed_.insert(passed_.end(), check.passed().begin(), check.passed().end());
      }
      if (check.target() == nullptr) continue;
    }
    check.SetHits(HitsOf(request_, descriptor), descriptor.is_negative_hits());
    check.SetStatus(*response_.mutable_statuses(i));
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
    std::swap(checks_[kept++], checks_[i]);
  }
  check_count_ = kept;
}

// Whether two checks may use the same counter. If not, the order of the checks does not matter.
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
    checks_.push_back(std::make_unique<DescriptorCheck>(
        dependencies_.limiter,
        [this](const DescriptorCheck& check, const Error* error) { OnDecided(check, error); }));
  }
  return *checks_[check_count_];
}

// A refund makes room for the checks that follow it, so these checks go to the store even if this
// server remembers a denial.
void ShouldRateLimitHandler::StartSome() {
  if (started_ == 0) undecided_ = check_count_;
  ++undecided_;
  if (canceled_) {
    CountDecided(check_count_ - started_);
    check_count_ = started_;
  }
  const std::size_t end = std::min(check_count_, started_ + kChecksPerIteration);
  while (started_ < end) {
    DescriptorCheck& check = *checks_[started_++];
    check.Start(context_);
    context_.ask_store |= check.is_negative();
  }
  if (started_ < check_count_) dependencies_.loop.Post([this] { StartSome(); });
  CountDecided(1);
}

void ShouldRateLimitHandler::OnDecided(const DescriptorCheck& check, const Error* error) {
  if (error != nullptr) {
    if (!error_) error_ = *error;
  } else if (!refunds_) {
    dependencies_.counters.Count(request_.domain(), check);
  }
  CountDecided(1);
}

void ShouldRateLimitHandler::CountDecided(std::size_t count) {
  undecided_ -= count;
  if (undecided_ > 0) return;
  if (!refunds_ && MustRefund()) return RefundAll();
  FinishWithStatuses();
}

bool ShouldRateLimitHandler::MustRefund() const {
  if (context_.count_denied) return false;
  if (!error_ && OverallCode(Checks()) == Response::OK) return false;
  return std::ranges::any_of(Checks(), [](const auto& check) { return check->has_charged(); });
}

void ShouldRateLimitHandler::RefundAll() {
  refunds_ = true;
  undecided_ = 1;
  for (const auto& check : Checks()) {
    if (!check->has_charged()) continue;
    ++undecided_;
    check->Refund(context_);
  }
  CountDecided(1);
}

void ShouldRateLimitHandler::FinishWithStatuses() {
  if (error_) return Refuse(ToStatus(*std::exchange(error_, std::nullopt)));
  Complete({.settings = dependencies_.settings,
            .request = request_,
            .checks = Checks(),
            .passed = passed_},
           response_);
  std::string& bytes = dependencies_.response;
  response_.SerializeToString(&bytes);
  if (dependencies_.peer_metrics != nullptr) {
    dependencies_.peer_metrics->OnAnswer(
        std::chrono::duration_cast<Duration>(SteadyNow() - context_.received));
  }
  ForgetCall();
  Finish(bytes);
  if (bytes.capacity() > kMaxKeptResponseBytes) bytes = std::string();
}

void ShouldRateLimitHandler::Refuse(const rpc::Status& error) {
  if (dependencies_.peer_metrics != nullptr) dependencies_.peer_metrics->OnError(error);
  ForgetCall();
  Finish(error);
}

// While a handler waits for its next call, it must not keep replaced rules or much memory.
void ShouldRateLimitHandler::ForgetCall() {
  context_.rules = nullptr;
  domain_ = nullptr;
  const bool is_small =
      request_bytes_ <= kMaxKeptBytes && request_.descriptors_size() <= kMaxKeptDescriptors;
  if (is_small) return;
  checks_.clear();
  request_ = Request();
  entries_ = {};
  response_ = Response();
  passed_ = {};
}

}  // namespace sluice::envoy
