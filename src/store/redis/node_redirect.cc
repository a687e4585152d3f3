// Checks that a cluster node has not run because their keys are at another node.
#include <algorithm>
#include <array>
#include <utility>

#include "store/redis/node.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {

// Applies to the next command only.
void Node::QueueAsking() {
  std::string command;
  AppendCommand(std::array<std::string_view, 1>{"ASKING"}, command);
  connection_.Send(command);
  in_flight_.push_back(
      {.sent = loop_.now(), .due = loop_.now() + options_.timeout, .pack = nullptr, .asks = true});
}

bool Node::MayRedirect(std::string_view error) const {
  return clustered_ && (IsRedirect(error) || IsForeignKey(error) || RefusesUndeclaredKeys(error));
}

void Node::RedirectPack(Pack& pack, std::string_view error) {
  NoteNotRun(error);
  for (StoreCheck*& slot : pack.checks) Redirect(*std::exchange(slot, nullptr), error);
  owner_.OnRedirected(*this);
}

// Checks whose owners have been answered are not redirected.
void Node::Redirect(StoreCheck& check, std::string_view error) {
  if (check.is_late || &check == &probe_) return Fail(check, StoreFailure::kRejected);
  --waiting_;
  must_declare_ |= RefusesUndeclaredKeys(error);
  owner_.OnRedirect(*this, check, error);
}

void Node::HandOver(const std::function<bool(StoreCheck&)>& takes) {
  for (StoreCheck* it = queue_.TakeIf(takes); it != nullptr; it = it->next) --waiting_;
}

bool Node::AwaitsInOrder() const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [](const Awaited& it) {
    return it.pack &&
           std::any_of(it.pack->checks.begin(), it.pack->checks.end(), [](const auto* check) {
             return check != nullptr && check->in_order && !check->is_late;
           });
  });
}

void Node::Retire() {
  retired_ = true;
  waits_to_connect_ = false;
  const bool keeps_order = AwaitsInOrder();
  StoreCheck* next =
      queue_.TakeIf([&](const StoreCheck& check) { return !keeps_order || !check.in_order; });
  while (next != nullptr) {
    StoreCheck& check = *next;
    next = check.next;
    Redirect(check, {});
  }
  for (auto& undo : std::exchange(deferred_undos_, {}))
    owner_.OnRedirect(*this, *undo.release(), {});
}

}  // namespace sluice::redis
