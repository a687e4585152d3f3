// What a node of a cluster has not run, as the keys are at another one.
#include <array>
#include <utility>

#include "store/redis/node.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {

// Holds for the one command that follows.
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
  metrics_.CountError(error);
  for (StoreCheck*& slot : pack.checks) Redirect(*std::exchange(slot, nullptr), error);
}

// Who has been answered already needs it no more.
void Node::Redirect(StoreCheck& check, std::string_view error) {
  if (check.is_late || &check == &probe_) return Fail(check, StoreFailure::kRejected);
  --waiting_;
  must_declare_ |= RefusesUndeclaredKeys(error);
  owner_.OnRedirect(*this, check, error);
}

void Node::Retire() {
  waits_to_connect_ = false;
  StoreCheck* next = gathering_.TakeExpired(SteadyTime::max());
  while (next != nullptr) {
    StoreCheck& check = *next;
    next = check.next;
    Redirect(check, {});
  }
  for (auto& take_back : std::exchange(put_off_, {}))
    owner_.OnRedirect(*this, *take_back.release(), {});
}

}  // namespace sluice::redis
