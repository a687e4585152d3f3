#include "replay/virtual_server.h"

#include <algorithm>
#include <utility>

#include "match/counter_key.h"

namespace sluice::replay {
namespace {

// Whether the store was full, so that the request's counters did not fit.
bool IsFull(const Result<CheckAnswer>& answer) {
  if (!answer) return answer.error().code == ErrorCode::kUnavailable;
  return std::ranges::any_of(answer->limits,
                             [](const LimitAnswer& it) { return it.source == Source::kFallback; });
}

}  // namespace

class VirtualServer::Call final : public CheckCall {
 public:
  explicit Call(VirtualServer& server) : CheckCall(server.limiter_), server_(server) {}

  bool pending = false;
  std::size_t position = 0;  // of the request in LoggedSecond::entries
  Time at;

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override {
    pending = false;
    server_.Count(*this, answer);
  }

  VirtualServer& server_;
};

VirtualServer::VirtualServer(std::shared_ptr<const RuleIndex> index, std::size_t max_memory)
    : index_(std::move(index)),
      store_(max_memory),
      limiter_({.store = store_, .local = store_, .fallback = fallback_, .metrics = metrics_}, {}),
      rules_(index_->size()),
      timeline_(1 + index_->size()) {
  limiter_.SetRules(index_);
  for (std::size_t i = 0; i < QueuedStore::kQueued; ++i) {
    calls_.push_back(std::make_unique<Call>(*this));
  }
}

VirtualServer::~VirtualServer() = default;

std::optional<std::size_t> VirtualServer::Decide(const LoggedSecond& second,
                                                 const RequestShape& shape) {
  const auto& entries = second.entries();
  timeline_.MoveTo(std::chrono::floor<std::chrono::seconds>(entries.front().at));
  allowed_.assign(entries.size(), true);
  for (std::size_t i = 0; i < entries.size() && !full_; ++i) {
    Call& call = *calls_[next_call_++ % calls_.size()];
    if (call.pending) store_.DecideAll();
    second.Fill(entries[i], shape, call.request);
    call.position = i;
    call.at = entries[i].at;
    call.pending = true;
    store_.SetTime(call.at);
    call.Start(SteadyTime());
  }
  store_.DecideAll();
  return full_;
}

void VirtualServer::Count(const Call& call, const Result<CheckAnswer>& answer) {
  if (full_) return;
  if (IsFull(answer)) {
    full_ = call.position;
    return;
  }
  const bool denied = answer && answer->decision == Decision::kDenied;
  allowed_[call.position] = answer && !denied;
  if (!answer) {
    if (refused_++ == 0) refusal_ = answer.error().message;
    return;
  }
  all_.Add(denied);
  timeline_.Now(0).Add(denied);
  if (answer->source == Source::kNoRule) ++unmatched_;
  CountRules(*answer, call.at);
}

// In an answer, the limits of a rule are adjacent, and the missing attributes of a rule are, too.
void VirtualServer::CountRules(const CheckAnswer& answer, Time at) {
  const auto& limits = answer.limits;
  for (std::size_t i = 0; i < limits.size();) {
    const IndexedRule& rule = *limits[i].rule;
    std::optional<std::size_t> denying;
    for (; i < limits.size() && limits[i].rule == &rule; ++i) {
      if (!limits[i].verdict.admitted && !denying) denying = i;
    }
    rules_[rule.id].all.Add(denying.has_value());
    timeline_.Now(1 + rule.id).Add(denying.has_value());
    if (denying) CountDeniedKey(rule, *denying, at);
  }
  const IndexedRule* last = nullptr;
  for (const MissingAttribute& missing : answer.missing_attributes) {
    if (missing.rule != last) ++rules_[missing.rule->id].skipped;
    last = missing.rule;
  }
}

// A rule that denies without counting has no keys.
void VirtualServer::CountDeniedKey(const IndexedRule& rule, std::size_t counter, Time at) {
  const StoreCheck* const check = store_.deciding();
  if (check == nullptr || rule.rule.per.empty()) return;
  auto& keys = rules_[rule.id].denied_keys;
  const std::string_view values = SubjectOf(check->counters[counter].key);
  auto found = keys.find(values);
  if (found == keys.end()) found = keys.emplace(values, DeniedKey{.first = at}).first;
  ++found->second.denied;
  found->second.last = at;
}

}  // namespace sluice::replay
