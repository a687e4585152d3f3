// A node while its breaker is open: checks fail immediately, and a background probe detects when
// Redis has recovered. Also limits how many checks may wait.
#include <algorithm>
#include <utility>

#include "store/redis/node.h"

namespace sluice::redis {

// A separate counter, so that no real one is charged. It expires soon.
Node::Probe::Probe(Node& node)
    : node_(node), limit_(FixedWindow{.limit = kMaxProduct, .window = std::chrono::seconds(1)}) {
  counters.push_back({.key = {}, .limit = &limit_, .verdict = {}});
}

void Node::OpenBreaker(std::string_view cause) {
  breaker_.Open(cause);
  FailQueued();
  WatchBreaker();
}

// Checks in flight precede queued ones, and in-order checks must not overtake each other.
void Node::FailQueued() {
  if (queue_.empty()) return;
  FailList(TakeInFlight(SteadyTime::max() - SteadyTime::duration(1)), StoreFailure::kTimeout);
  FailList(queue_.TakeExpired(SteadyTime::max()), StoreFailure::kUnsent);
}

void Node::WatchBreaker() {
  if (probe_timer_.active()) return;
  probe_timer_.Start(loop_.now() + breaker_.ProbePause(loop_.Random()));
}

void Node::OnProbeTime() {
  if (breaker_.closed()) return SendDeferredUndos();
  WatchBreaker();
  if (connection_.ready() && breaker_.TakeProbe()) SendProbe();
}

void Node::SendProbe() {
  ++waiting_;
  probe_.key_ = owner_.ProbeKey(*this);
  probe_.counters.front().key = probe_.key_;
  probe_.deadline_extended = true;  // if this process is late, the next probe decides
  probe_.late = nullptr;
  probe_.deadline = loop_.now() + options_.timeout;
  std::unique_ptr<Pack> pack = TakeSpare();
  pack->first_entry = UINT64_MAX;  // no entry follows it
  pack->entries.push_back({.begin = 0, .n = 1});
  pack->checks.push_back(&probe_);
  script_call_.Clear();
  script_call_.Add(probe_, 1);
  EncodeCall(*pack);
  SendPack(std::move(pack));
}

void Node::OnProbed(bool answered_in_time) {
  breaker_.OnProbe(answered_in_time);
  if (!answered_in_time) return;
  owner_.OnReachable(*this);
  SendDeferredUndos();
}

// Checks beyond what Redis decides in half of `timeout` would mostly time out.
void Node::NoteAnswered(std::size_t checks) {
  const Duration half = options_.timeout / 2;
  const SteadyTime::duration passed = loop_.now() - half_began_;
  if (passed >= half) {
    answered_before_ = passed < 2 * half ? answered_ : 0;
    answered_ = 0;
    half_began_ = loop_.now();
  }
  answered_ += checks;
  most_waiting_ =
      std::min(options_.max_pending, std::max({kFewestWaiting, answered_, answered_before_}));
}

}  // namespace sluice::redis
