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

using Routing = StoreCheck::Routing;

MetricLabels LabelsOf(const Server& server, const net::Loop& loop) {
  MetricLabels labels = server.labels;
  labels["loop"] = fmt::format("io-{}", loop.index());
  return labels;
}

}  // namespace

Node::Node(const NodeContext& context, const Address& address, Server& server,
           WhenUnconnected when_unconnected)
    : Flushable(net::FlushStage::kStore),
      loop_(context.loop),
      owner_(context.owner),
      address_(address),
      status_(server.status),
      breaker_(server.breaker),
      inspection_(context.inspects ? &server.inspection : nullptr),
      options_(context.options),
      clustered_(context.clustered),
      waits_to_connect_(when_unconnected == WhenUnconnected::kWait),
      metrics_(context.metrics, LabelsOf(server, loop_)),
      connection_(loop_, context.access, server.status, *this),
      timer_(loop_.timers(), [this] { OnTimer(); }),
      inspect_timer_(loop_.timers(), [this] { Inspect(); }),
      probe_timer_(loop_.timers(), [this] { OnProbeTime(); }),
      most_waiting_(std::min(options_.max_pending, kFewestWaiting)) {
  if (inspection_ != nullptr) breaker_.Show(true);
  connection_.Start();
}

void Node::Submit(StoreCheck& check) {
  check.deadline_extended = false;
  check.late = nullptr;
  SubmitAgain(check);
}

void Node::SubmitAgain(StoreCheck& check) {
  ++waiting_;
  if (check.last_deadline <= loop_.now()) return Fail(check, StoreFailure::kCallerTimeout);
  if (!connection_.ready() && !waits_to_connect_) return Fail(check, StoreFailure::kUnreachable);
  if (!breaker_.closed()) {
    WatchBreaker();
    return Fail(check, StoreFailure::kUnreachable);
  }
  if (waiting_ > most_waiting_) return Fail(check, StoreFailure::kOverloaded);
  if (check.deadline <= loop_.now()) return Fail(check, StoreFailure::kUnsent);
  ArmTimer(check.deadline);
  Enqueue(check);
}

void Node::Enqueue(StoreCheck& check) {
  queue_.Add(check);
  loop_.RequestFlush(*this);
}

// Sent without queueing, since it is rare.
void Node::Reset(StoreReset& reset, bool asking) {
  if (!connection_.ready()) return Finish(reset, StoreFailure::kUnreachable);
  if (reset.deadline <= loop_.now()) return Finish(reset, StoreFailure::kTimeout);
  ArmTimer(reset.deadline);
  if (asking) QueueAsking();
  arguments_.assign(1, "UNLINK");
  arguments_.insert(arguments_.end(), reset.keys.begin(), reset.keys.end());
  std::string command;
  AppendCommand(arguments_, command);
  connection_.Send(command);
  in_flight_.push_back({.sent = loop_.now(),
                        .due = loop_.now() + options_.timeout,
                        .pack = nullptr,
                        .reset = &reset});
}

// Only once: later the state that it shares may be that of another node for the same server.
void Node::Stop() {
  if (std::exchange(stopped_, true)) return;
  connection_.Stop();
  timer_.Cancel();
  probe_timer_.Cancel();
  inspect_timer_.Cancel();
  if (inspection_ != nullptr) {
    std::exchange(inspection_, nullptr)->Forget();
    breaker_.Show(false);
  }
  metrics_.OnStopped();
  status_.SetReady(loop_.index(), false);
  FailAll();
  probe_timer_.Cancel();
}

void Node::Flush() {
  if (!breaker_.closed()) FailQueued();
  while (MaySend()) SendQueued();
  metrics_.ShowWaiting(waiting_);
}

bool Node::MaySend() const {
  if (!connection_.ready() || !breaker_.closed() || queue_.empty() || retired_) return false;
  if (packs_in_flight_ == 0) return true;
  if (queue_.front().first->routing != Routing::kWithOthers) {
    return packs_in_flight_ < kMaxSlotPacksInFlight && !WaitsForPackInFlight(queue_.front());
  }
  return packs_in_flight_ < kMaxPacksInFlight && queue_.entries() >= ScriptCall::kMaxEntries &&
         !WaitsForPackInFlight(queue_.front());
}

// In-order checks of one counter are never in flight in two packs. If the script were missing for
// the first pack, and another client loaded it, the second pack would be decided before the first.
bool Node::WaitsForPackInFlight(const CheckQueue::Entry& entry) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [&](const Awaited& it) {
    return it.pack && entry.after >= it.pack->first_entry;
  });
}

// A pack with declared keys, or after ASKING, holds one entry.
bool Node::MayJoin(const CheckQueue::Entry& entry, const Pack& pack) const {
  const bool alone = pack.routing != Routing::kWithOthers;
  return script_call_.HasRoomFor(*entry.first) &&
         (pack.entries.empty() || (!alone && entry.first->routing == Routing::kWithOthers));
}

// Sends one pack of the oldest entries.
void Node::SendQueued() {
  std::unique_ptr<Pack> pack = TakeSpare();
  pack->first_entry = queue_.front().number;
  pack->routing = queue_.front().first->routing;
  script_call_.Clear();
  while (!queue_.empty() && MayJoin(queue_.front(), *pack)) {
    const CheckQueue::Entry& entry = queue_.front();
    if (entry.after < pack->first_entry && WaitsForPackInFlight(entry)) break;
    script_call_.Add(*entry.first, static_cast<std::int64_t>(entry.n));
    pack->entries.push_back({.begin = pack->checks.size(), .n = entry.n});
    for (StoreCheck* check = entry.first; check != nullptr; check = check->next) {
      pack->checks.push_back(check);
    }
    queue_.PopFront();
  }
  EncodeCall(*pack);
  SendPack(std::move(pack));
}

std::unique_ptr<Pack> Node::TakeSpare() {
  if (spare_.empty()) return std::make_unique<Pack>();
  auto pack = std::move(spare_.back());
  spare_.pop_back();
  return pack;
}

void Node::EncodeCall(Pack& pack) {
  const bool declares_keys = !clustered_ || must_declare_ || pack.routing == Routing::kBySlot;
  const auto arguments = script_call_.Arguments(
      declares_keys, options_.clock != nullptr ? options_.clock->Now() : Time());
  arguments_.assign({"EVALSHA", kCheckScript.sha1});
  arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
  AppendCommand(arguments_, pack.command);
}

void Node::SendPack(std::unique_ptr<Pack> pack) {
  if (pack->routing == Routing::kAsking) QueueAsking();
  connection_.Send(pack->command);
  const SteadyTime now = loop_.now();
  in_flight_.push_back({.sent = now, .due = now + options_.timeout, .pack = std::move(pack)});
  ++packs_in_flight_;
  ArmTimer(now + std::min(options_.timeout, options_.silence));
  metrics_.CountScriptCall();
}

// The script is missing, so nothing has run. This is the only error after which a pack is sent
// again. A following pack gets the same error and is resent after it. Queued checks are sent after
// both.
void Node::SendAgain(std::unique_ptr<Pack> pack) {
  if (pack->IsAbandoned()) {
    FailPack(*pack, StoreFailure::kRejected);
    return Recycle(std::move(pack));
  }
  if (!std::exchange(loading_script_, true)) {
    std::string load;
    AppendCommand(std::array<std::string_view, 3>{"SCRIPT", "LOAD", kCheckScript.text}, load);
    connection_.Send(load);
    in_flight_.push_back({.sent = loop_.now(),
                          .due = loop_.now() + options_.timeout,
                          .pack = nullptr,
                          .loads_script = true});
  }
  SendPack(std::move(pack));
}

void Node::OnReady() {
  waits_to_connect_ = false;
  metrics_.OnReady();
  status_.SetReady(loop_.index(), true);
  if (!queue_.empty()) loop_.RequestFlush(*this);
  if (inspection_ != nullptr) Inspect();
  if (!breaker_.closed()) return probe_timer_.Start(loop_.now());
  owner_.OnReachable(*this);
  SendDeferredUndos();
}

void Node::Inspect() {
  inspect_timer_.Start(loop_.now() + Inspection::kEvery);
  if (!connection_.ready()) return;
  connection_.Send(Inspection::Command(clustered_));
  in_flight_.push_back({.sent = loop_.now(),
                        .due = loop_.now() + options_.timeout,
                        .pack = nullptr,
                        .inspects = true});
}

void Node::OnFailedAttempt(std::string_view cause) {
  metrics_.OnFailedAttempt(cause);
  if (std::exchange(waits_to_connect_, false)) FailAll();
  owner_.OnUnreachable(*this);
}

// A pack's reply has at most 48 bytes for each counter of an entry, which takes 8 of the command,
// and a message for each entry that failed, which may quote a key.
ReplySize Node::LargestReply() const {
  ReplySize most;
  if (in_flight_.empty() || in_flight_.front().pack == nullptr) return most;
  const Pack& pack = *in_flight_.front().pack;
  most.bytes += 8 * pack.command.size();
  most.elements = 1 + pack.entries.size();
  return most;
}

void Node::OnReply(const redisReply& reply) {
  if (in_flight_.empty()) return connection_.Restart("protocol error: a reply without a request");
  last_reply_ = loop_.now();
  Awaited answered = std::move(in_flight_.front());
  in_flight_.erase(in_flight_.begin());
  if (answered.pack) {
    --packs_in_flight_;
    OnPackReply(std::move(answered.pack), reply);
  } else if (answered.loads_script || answered.asks) {
    if (answered.loads_script) loading_script_ = false;
    if (reply.type == REDIS_REPLY_ERROR) NoteError(TextOf(reply));
  } else if (answered.inspects) {
    inspection_->OnReply(reply);
  } else {
    OnResetReply(answered.reset, reply);
  }
  if (retired_) Retire();
  loop_.RequestFlush(*this);
  if (restart_cause_.empty()) return;
  connection_.Restart(std::exchange(restart_cause_, {}));
}

void Node::OnPackReply(std::unique_ptr<Pack> pack, const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR && WordOf(TextOf(reply)) == "NOSCRIPT") {
    NoteNotRun(TextOf(reply));
    return SendAgain(std::move(pack));
  }
  if (reply.type == REDIS_REPLY_ERROR && MayRedirect(TextOf(reply))) {
    tally_.Count(false, loop_.now());
    RedirectPack(*pack, TextOf(reply));
  } else if (reply.type == REDIS_REPLY_ERROR) {
    NoteError(TextOf(reply));
    FailPack(*pack, StoreFailure::kRejected);
    if (tally_.Count(true, loop_.now())) OpenBreaker(LogText(TextOf(reply)));
  } else if (!Deliver(*pack, reply)) {
    // It is unknown which command this reply, or the next one, belongs to.
    FailPack(*pack, StoreFailure::kRejected);
    restart_cause_ = "protocol error: a reply that is not from the check script";
  } else {
    tally_.Count(false, loop_.now());
    NoteAnswered(pack->checks.size());
  }
  Recycle(std::move(pack));
}

// Returns false if the reply does not fit the pack.
bool Node::Deliver(Pack& pack, const redisReply& reply) {
  std::vector<std::string_view> elements;
  for (std::size_t i = 0; reply.type == REDIS_REPLY_ARRAY && i < reply.elements; ++i) {
    elements.push_back(TextOf(*reply.element[i]));
  }
  auto opened = ScriptReply::Open(std::move(elements));
  if (!opened) return false;
  return std::all_of(pack.entries.begin(), pack.entries.end(),
                     [&](const Pack::Entry& entry) { return DeliverEntry(pack, entry, *opened); });
}

// Distributes the grants in order of arrival. Returns false if the reply ends too early.
bool Node::DeliverEntry(Pack& pack, const Pack::Entry& entry, ScriptReply& reply) {
  const auto begin = pack.checks.begin() + static_cast<std::ptrdiff_t>(entry.begin);
  const auto end = begin + static_cast<std::ptrdiff_t>(entry.n);
  if (!reply.Next(**begin, static_cast<std::int64_t>(entry.n), entry_reply_)) return false;
  const bool failed = !entry_reply_.error.empty();
  const bool elsewhere = failed && MayRedirect(entry_reply_.error);
  const bool wrote = !failed && entry_reply_.granted > 0 && (*begin)->demand.mode != Mode::kPeek;
  if (failed && !elsewhere) NoteError(entry_reply_.error);
  if (wrote) connection_.NoteUse();
  for (auto check = begin; check != end; ++check) {
    StoreCheck& answered = *std::exchange(*check, nullptr);
    if (failed) {
      elsewhere ? Redirect(answered, entry_reply_.error) : Fail(answered, StoreFailure::kRejected);
      continue;
    }
    entry_reply_.Answer(answered, check - begin);
    --waiting_;
    answered.OnDecided();
  }
  if (elsewhere) owner_.OnRedirected(*this);
  return true;
}

void Node::OnResetReply(StoreReset* reset, const redisReply& reply) {
  const bool failed = reply.type == REDIS_REPLY_ERROR;
  if (failed && reset != nullptr && MayRedirect(TextOf(reply))) {
    return owner_.OnRedirect(*this, *reset, TextOf(reply));
  }
  if (failed) NoteError(TextOf(reply));
  if (reset == nullptr) return;
  Finish(*reset, failed ? std::optional(StoreFailure::kRejected) : std::nullopt);
}

// An error that ends the connection is counted and logged when the connection ends.
void Node::NoteError(std::string_view error) {
  if (WantsReconnect(error)) {
    restart_cause_ = error;
    return;
  }
  metrics_.CountError(error);
  status_.OnError(error, loop_.now());
  if (WordOf(error) == "CLUSTERDOWN") owner_.OnLayoutSuspect();
}

void Node::NoteNotRun(std::string_view error) {
  metrics_.CountError(error);
  status_.OnNotRun(error, loop_.now());
}

void Node::Recycle(std::unique_ptr<Pack> pack) {
  pack->Clear();
  spare_.push_back(std::move(pack));
}

void Node::OnDown(std::string_view cause) {
  metrics_.OnDown(cause);
  status_.SetReady(loop_.index(), false);
  FailAll();
  owner_.OnUnreachable(*this);
}

// Checks that were sent may have been decided; the others have not.
void Node::FailAll() {
  packs_in_flight_ = 0;
  loading_script_ = false;
  restart_cause_ = {};
  for (Awaited& awaited : std::exchange(in_flight_, {})) {
    if (awaited.pack) FailPack(*awaited.pack, StoreFailure::kTimeout);
    if (awaited.reset != nullptr) Finish(*awaited.reset, StoreFailure::kTimeout);
  }
  FailList(queue_.TakeExpired(SteadyTime::max()), StoreFailure::kUnreachable);
  metrics_.ShowWaiting(waiting_);
}

void Node::FailPack(Pack& pack, StoreFailure failure) {
  for (StoreCheck*& slot : pack.checks) {
    if (slot == nullptr) continue;
    if (failure == StoreFailure::kTimeout && !slot->is_late) Fail(ReplaceByLate(slot), failure);
    Fail(*std::exchange(slot, nullptr), failure);
  }
}

void Node::FailList(StoreCheck* first, StoreFailure failure) {
  while (first != nullptr) {
    StoreCheck& check = *first;
    first = check.next;
    Fail(check, failure);
  }
}

// A deadline set by the caller is not a failure of Redis.
void Node::Fail(StoreCheck& check, StoreFailure failure) {
  if (check.late == nullptr) --waiting_;  // otherwise its LateCheck keeps waiting
  const bool timed_out = failure == StoreFailure::kTimeout || failure == StoreFailure::kUnsent;
  const bool of_caller = timed_out && check.last_deadline <= loop_.now();
  check.Fail(of_caller ? StoreFailure::kCallerTimeout : failure);
  check.OnDecided();
}

void Node::Finish(StoreReset& reset, std::optional<StoreFailure> failure) {
  reset.failure = failure;
  reset.OnReset();
}

}  // namespace sluice::redis
