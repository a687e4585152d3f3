#include "store/redis/node.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "store/redis/redis_error.h"
#include "store/redis/script.h"

namespace sluice::redis {
namespace {

// Timers work in milliseconds, so a timer may be this late although the loop is on time.
constexpr std::chrono::milliseconds kTimerSteps(2);

MetricLabels LabelsOf(const ServerState& server, const net::Loop& loop) {
  MetricLabels labels = server.labels;
  labels["loop"] = fmt::format("io-{}", loop.index());
  return labels;
}

}  // namespace

Node::Node(const NodeContext& context, const Address& address, ServerState& server,
           WhenUnconnected when_unconnected)
    : Flushable(net::FlushStage::kStore),
      loop_(context.loop),
      owner_(context.owner),
      settler_(context.settler),
      address_(address),
      status_(server.status),
      breaker_(server.breaker),
      options_(context.options),
      clustered_(context.clustered),
      waits_to_connect_(when_unconnected == WhenUnconnected::kWait),
      metrics_(context.metrics, LabelsOf(server, loop_)),
      connection_(loop_, context.access, server.status, *this),
      timer_(loop_.timers(), [this] { OnTimer(); }),
      inspect_timer_(loop_.timers(), [this] { Inspect(); }),
      probe_(loop_, breaker_, options_.timeout, *this),
      waiting_(options_.max_pending, options_.timeout),
      in_flight_(options_.timeout, options_.silence),
      packer_(in_flight_, options_.clock, clustered_) {
  if (context.inspects) {
    inspection_.emplace(server.status.name(), context.metrics, server.labels);
    breaker_.Show(true);
  }
  connection_.Start();
}

// A second call does nothing: by then, another Node for the same Redis may use the shared state.
void Node::Stop() {
  if (std::exchange(stopped_, true)) return;
  waits_to_connect_ = false;
  connection_.Stop();
  timer_.Cancel();
  inspect_timer_.Cancel();
  if (inspection_) breaker_.Show(false);
  inspection_.reset();
  metrics_.OnStopped();
  status_.SetReady(loop_.index(), false);
  FailAll();
  probe_.Stop();
}

// The store's own checks are not limited here: Settler limits how many of them are deferred.
void Node::Submit(PendingPtr pending) {
  StoreCheck& check = *pending->check;
  const SteadyTime now = loop_.now();
  if (check.last_deadline <= now) return Fail(check, StoreFailure::kCallerTimeout);
  if (!connection_.ready() && !waits_to_connect_) return Fail(check, StoreFailure::kUnreachable);
  if (!breaker_.closed()) {
    probe_.Start();
    return Fail(check, StoreFailure::kUnreachable);
  }
  if (!pending->own && waiting_.is_reached()) return Fail(check, StoreFailure::kOverloaded);
  if (check.deadline <= now) return Fail(check, StoreFailure::kUnsent);
  waiting_.Add();
  ArmTimer(check.deadline);
  packer_.queue().Add(std::move(pending));
  loop_.RequestFlush(*this);
}

// A reset is rare, so it is sent without queueing.
void Node::Reset(StoreReset& reset, bool asking) {
  if (!connection_.ready()) return reset.Finish(StoreFailure::kUnreachable);
  if (reset.deadline <= loop_.now()) return reset.Finish(StoreFailure::kTimeout);
  ArmTimer(reset.deadline);
  if (asking) Ask();
  std::vector<std::string_view> arguments{"UNLINK"};
  arguments.insert(arguments.end(), reset.keys.begin(), reset.keys.end());
  Send(arguments, {.kind = Kind::kReset, .reset = &reset});
}

void Node::Send(std::span<const std::string_view> arguments, InFlightCommand command) {
  std::string bytes;
  AppendCommand(arguments, bytes);
  connection_.SendFormatted(bytes);
  in_flight_.Add(std::move(command), loop_.now());
}

// Permits the keys of the next command to be in a slot that the node imports.
void Node::Ask() { Send(std::array<std::string_view, 1>{"ASKING"}, {.kind = Kind::kAsking}); }

void Node::Flush() {
  if (!breaker_.closed()) FailQueued();
  while (reachable() && !retired_) {
    auto pack = packer_.TakeNext();
    if (!pack) break;
    SendPack(std::move(pack));
  }
  metrics_.ShowWaiting(waiting_.waiting());
}

void Node::SendPack(std::unique_ptr<Pack> pack) {
  if (pack->routing == Routing::kAsking) Ask();
  connection_.SendFormatted(pack->command);
  in_flight_.Add({.kind = Kind::kPack, .pack = std::move(pack)}, loop_.now());
  ArmTimer(loop_.now() + std::min(options_.timeout, options_.silence));
  metrics_.CountScriptCall();
}

// The script is missing, so nothing has run. This is the only error after which a pack is sent
// again. The packs in flight behind `pack` get the same error and are sent again after `pack`.
// Meanwhile, queued checks may overtake packs of one slot, but in-order checks keep their order:
// see MaySendFront.
void Node::SendAgain(std::unique_ptr<Pack> pack) {
  if (pack->IsAbandoned()) return FailPack(*pack, StoreFailure::kRejected);
  if (!std::exchange(loading_script_, true)) {
    Send(std::array<std::string_view, 3>{"SCRIPT", "LOAD", kCheckScript.text},
         {.kind = Kind::kScriptLoad});
  }
  SendPack(std::move(pack));
}

void Node::Inspect() {
  inspect_timer_.Start(loop_.now() + Inspection::kEvery);
  if (!connection_.ready()) return;
  Inspection::Ask(connection_, clustered_);
  in_flight_.Add({.kind = Kind::kInspection}, loop_.now());
}

void Node::OnReady() {
  waits_to_connect_ = false;
  metrics_.OnReady();
  status_.SetReady(loop_.index(), true);
  if (!packer_.queue().empty()) loop_.RequestFlush(*this);
  if (inspection_) Inspect();
  breaker_.closed() ? owner_.OnReachable(*this) : probe_.Hurry();
}

void Node::OnFailedAttempt(std::string_view cause) {
  metrics_.OnFailedAttempt(cause);
  if (std::exchange(waits_to_connect_, false)) FailAll();
  owner_.OnUnreachable(*this, /*lost=*/!status_.AnyReady());
}

void Node::OnDown(std::string_view cause) {
  metrics_.OnDown(cause);
  status_.SetReady(loop_.index(), false);
  FailAll();
  owner_.OnUnreachable(*this, /*lost=*/true);
}

// A counter of an entry takes at least 16 bytes of the command, and at most 88 bytes of the reply.
// Each entry that failed adds a message to the reply, which may quote a key.
ReplySize Node::LargestReply() const {
  ReplySize most;
  if (in_flight_.empty() || in_flight_.oldest().pack == nullptr) return most;
  const Pack& pack = *in_flight_.oldest().pack;
  most.bytes += 8 * pack.command.size();
  most.elements = 1 + pack.entries.size();
  return most;
}

void Node::OnReply(const redisReply& reply) {
  if (in_flight_.empty()) return connection_.Restart("protocol error: a reply without a request");
  InFlightCommand answered = in_flight_.TakeOldest(loop_.now());
  switch (answered.kind) {
    case Kind::kPack:
      OnPackReply(std::move(answered.pack), reply);
      break;
    case Kind::kReset:
      OnResetReply(answered.reset, reply);
      break;
    case Kind::kInspection:
      inspection_->OnReply(reply);
      break;
    case Kind::kScriptLoad:
      loading_script_ = false;
      [[fallthrough]];
    case Kind::kAsking:
      if (reply.type == REDIS_REPLY_ERROR) NoteError(TextOf(reply));
  }
  if (retired_) Retire();
  loop_.RequestFlush(*this);
  if (restart_cause_.empty()) return;
  connection_.Restart(std::exchange(restart_cause_, {}));
}

void Node::OnPackReply(std::unique_ptr<Pack> pack, const redisReply& reply) {
  const SteadyTime now = loop_.now();
  if (reply.type == REDIS_REPLY_ERROR) {
    const std::string_view error = TextOf(reply);
    if (WordOf(error) == "NOSCRIPT") {
      NoteNotRun(error);
      return SendAgain(std::move(pack));
    }
    const bool redirects = MayRedirect(error);
    const bool opens = call_counts_.Count(!redirects, now);
    if (redirects) return RedirectPack(*pack, error);
    NoteError(error);
    FailPack(*pack, StoreFailure::kRejected);
    if (opens) OpenBreaker(LogText(error));
    return;
  }
  if (!DeliverAnswers(*pack, reply)) {
    // It is unknown which command this reply, or the next one, belongs to.
    restart_cause_ = "protocol error: a reply that is not from the check script";
    return FailPack(*pack, StoreFailure::kRejected);
  }
  call_counts_.Count(false, now);
  waiting_.NoteAnswered(pack->checks(), now);
  packer_.Recycle(std::move(pack));
}

// Returns false if the reply does not fit the pack.
bool Node::DeliverAnswers(Pack& pack, const redisReply& reply) {
  std::vector<std::string_view> elements;
  if (reply.type == REDIS_REPLY_STRING) elements.push_back(TextOf(reply));
  for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; ++i) {
    elements.push_back(TextOf(*reply.element[i]));
  }
  auto opened = ScriptReply::Open(std::move(elements));
  if (!opened) return false;
  const bool fits =
      std::all_of(pack.entries.begin(), pack.entries.end(),
                  [&](CheckQueue::Entry& entry) { return DeliverAnswers(entry, *opened); });
  if (std::exchange(entries_redirected_, false)) owner_.OnRedirected(*this);
  return fits;
}

// Answers the checks in order of arrival. Returns false if the reply ends too early.
bool Node::DeliverAnswers(CheckQueue::Entry& entry, ScriptReply& reply) {
  const StoreCheck& first = *entry.front().check;
  if (!reply.Next(first, static_cast<std::int64_t>(entry.checks.size()), entry_reply_)) {
    return false;
  }
  const std::string_view error = entry_reply_.error;
  if (!error.empty()) {
    OnEntryFailed(entry, error);
    return true;
  }
  const bool writes = first.demand.mode != Mode::kPeek && !first.HasNoUnits();
  if (entry_reply_.granted > 0 && writes) connection_.MarkHealthy();
  for (std::size_t i = 0; i < entry.checks.size(); ++i) {
    const PendingPtr answered = std::move(entry.checks[i]);
    entry_reply_.Answer(*answered->check, static_cast<std::int64_t>(i));
    waiting_.Remove();
    answered->check->OnDecided();
  }
  return true;
}

void Node::OnEntryFailed(CheckQueue::Entry& entry, std::string_view error) {
  if (MayRedirect(error)) {
    for (PendingPtr& check : entry.checks) Redirect(std::move(check), error);
    entries_redirected_ = true;
    return;
  }
  NoteError(error);
  Fail(std::move(entry.checks), StoreFailure::kCounterRejected);
}

void Node::OnResetReply(StoreReset* reset, const redisReply& reply) {
  const bool failed = reply.type == REDIS_REPLY_ERROR;
  if (failed && reset != nullptr && MayRedirect(TextOf(reply))) {
    return owner_.OnRedirect(*this, *reset, TextOf(reply));
  }
  if (failed) NoteError(TextOf(reply));
  if (reset == nullptr) return;
  reset->Finish(failed ? std::optional(StoreFailure::kRejected) : std::nullopt);
}

// An error that ends the connection is counted and logged when the connection ends.
void Node::NoteError(std::string_view error) {
  if (WantsReconnect(error)) {
    restart_cause_ = error;
    return;
  }
  metrics_.CountError(error);
  status_.OnError(error, loop_.now(), {});
  if (WordOf(error) == "CLUSTERDOWN") owner_.OnLayoutSuspect();
}

void Node::NoteNotRun(std::string_view error) {
  metrics_.CountError(error);
  status_.OnNotRun(error, loop_.now());
}

bool Node::MayRedirect(std::string_view error) const {
  return clustered_ && (IsRedirect(error) || IsForeignKey(error) || RefusesUndeclaredKeys(error));
}

void Node::RedirectPack(Pack& pack, std::string_view error) {
  NoteNotRun(error);
  for (CheckQueue::Entry& entry : pack.entries) {
    for (PendingPtr& check : entry.checks) Redirect(std::move(check), error);
  }
  owner_.OnRedirected(*this);
}

// Checks whose owners have been answered, and probes, are not redirected but fail.
void Node::Redirect(PendingPtr pending, std::string_view error) {
  if (pending->is_late || pending->is_probe) {
    return Fail(std::move(pending), StoreFailure::kRejected);
  }
  waiting_.Remove();
  if (RefusesUndeclaredKeys(error)) packer_.DeclareKeys();
  owner_.OnRedirect(*this, std::move(pending), error);
}

PendingChecks Node::RemoveQueuedIf(const std::function<bool(const PendingCheck&)>& takes) {
  PendingChecks removed = packer_.queue().RemoveIf(takes);
  for (std::size_t i = 0; i < removed.size(); ++i) waiting_.Remove();
  return removed;
}

void Node::Retire() {
  retired_ = true;
  waits_to_connect_ = false;
  const bool keeps_order = in_flight_.HasInOrder();
  for (PendingPtr& pending : packer_.queue().RemoveIf(
           [&](const PendingCheck& it) { return !keeps_order || !it.check->in_order; })) {
    Redirect(std::move(pending), {});
  }
}

// One timer serves all deadlines.
void Node::ArmTimer(SteadyTime deadline) {
  if (deadline == SteadyTime::max()) return;
  if (!timer_.active() || deadline < timer_.at()) timer_.Start(deadline);
}

// Sockets are read before timers run, so a reply that has arrived is not missed.
void Node::OnTimer() {
  const SteadyTime now = loop_.now();
  const Duration late_by = std::chrono::duration_cast<Duration>(now - timer_.at());
  if (late_by >= std::max<Duration>(options_.timeout / 2, kTimerSteps)) {
    in_flight_.ExtendDeadlines(now);
    packer_.queue().ForEach([&](PendingCheck& it) { it.ExtendDeadline(now, options_.timeout); });
  }
  FailOverdue();
  if (in_flight_.IsOverdue(now) && breaker_.closed()) {
    OpenBreaker(fmt::format("a call is not answered within {} µs", options_.timeout.count()));
  }
  if (in_flight_.IsSilent(now)) {
    return connection_.Restart(fmt::format(
        "no reply for {} ms",
        std::chrono::duration_cast<std::chrono::milliseconds>(options_.silence).count()));
  }
  SteadyTime next = in_flight_.NextDeadline(breaker_.closed());
  packer_.queue().ForEach(
      [&](const PendingCheck& it) { next = std::min(next, it.check->deadline); });
  ArmTimer(next);
  loop_.RequestFlush(*this);
}

// Checks in flight fail before queued ones. All are collected first, because an owner may submit
// another check from OnDecided.
void Node::FailOverdue() {
  const SteadyTime now = loop_.now();
  const std::vector<StoreCheck*> overdue = DetachInFlight(now);
  PendingChecks unsent = packer_.queue().RemoveExpired(now);
  for (StoreCheck* const check : overdue) Fail(*check, StoreFailure::kTimeout);
  Fail(std::move(unsent), StoreFailure::kUnsent);
  for (StoreReset* const reset : in_flight_.TakeOverdueResets(now)) {
    reset->Finish(StoreFailure::kTimeout);
  }
}

void Node::OpenBreaker(std::string_view cause) {
  breaker_.Open(cause);
  FailQueued();
  probe_.Start();
}

// If checks are queued, the checks in flight fail first: in-order checks must not overtake each
// other.
void Node::FailQueued() {
  if (packer_.queue().empty()) return;
  constexpr auto kAll = SteadyTime::max();
  for (StoreCheck* const check : DetachInFlight(kAll - SteadyTime::duration(1))) {
    Fail(*check, StoreFailure::kTimeout);
  }
  Fail(packer_.queue().RemoveExpired(kAll), StoreFailure::kUnsent);
}

// Detaches and returns the checks in flight whose deadline is `until` or before, in the order in
// which Redis decides them. They still count as waiting, because Redis has not answered them.
std::vector<StoreCheck*> Node::DetachInFlight(SteadyTime until) {
  std::vector<StoreCheck*> detached;
  in_flight_.ForEachCheck([&](PendingCheck& it) {
    if (it.check->deadline <= until) detached.push_back(&settler_.Detach(it));
  });
  return detached;
}

void Node::SendProbe(PendingPtr probe) {
  waiting_.Add();
  SendPack(packer_.PackAlone(std::move(probe)));
}

void Node::OnBreakerClosed() {
  if (connection_.ready()) owner_.OnReachable(*this);
}

// Redis may have decided the checks that were sent, but not the queued checks.
void Node::FailAll() {
  loading_script_ = false;
  restart_cause_ = {};
  for (InFlightCommand& command : in_flight_.TakeAll()) {
    if (command.pack) FailPack(*command.pack, StoreFailure::kTimeout);
    if (command.reset != nullptr) command.reset->Finish(StoreFailure::kTimeout);
  }
  Fail(packer_.queue().RemoveExpired(SteadyTime::max()), StoreFailure::kUnreachable);
  metrics_.ShowWaiting(waiting_.waiting());
}

void Node::FailPack(Pack& pack, StoreFailure failure) {
  for (CheckQueue::Entry& entry : pack.entries) {
    for (PendingPtr& check : entry.checks) {
      if (!check) continue;
      if (failure == StoreFailure::kTimeout && !check->own) Fail(settler_.Detach(*check), failure);
      Fail(std::move(check), failure);
    }
  }
}

void Node::Fail(PendingChecks checks, StoreFailure failure) {
  for (PendingPtr& check : checks) Fail(std::move(check), failure);
}

void Node::Fail(PendingPtr pending, StoreFailure failure) {
  waiting_.Remove();
  Fail(*pending->check, failure);
}

// If the caller's own deadline has passed, this is not a failure of Redis.
void Node::Fail(StoreCheck& check, StoreFailure failure) const {
  const bool timed_out = failure == StoreFailure::kTimeout || failure == StoreFailure::kUnsent;
  const bool of_caller = timed_out && check.last_deadline <= loop_.now();
  check.Fail(of_caller ? StoreFailure::kCallerTimeout : failure);
  check.OnDecided();
}

}  // namespace sluice::redis
