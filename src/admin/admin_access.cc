#include "admin/admin_access.h"

#include <algorithm>

#include "base/hash.h"
#include "base/log.h"

namespace sluice {
namespace {

Counter& Refused(MetricsRegistry& metrics, const char* reason) {
  return metrics.CounterFor("sluice_admin_refused_total",
                            "Operator calls refused for their token, by reason.",
                            {{"reason", reason}});
}

}  // namespace

WrongTokens::WrongTokens(MetricsRegistry& metrics)
    : wrong_(Refused(metrics, "wrong_token")), slowed_(Refused(metrics, "slowed")) {}

SteadyTime& WrongTokens::PaidUntil(const net::Peer& peer) {
  const auto& name = peer.network.empty() ? peer.address : peer.network;
  return paid_until_[Hash(name) % paid_until_.size()];
}

bool WrongTokens::MayTry(const net::Peer& peer, SteadyTime now) {
  const MutexLock lock(mutex_);
  if (PaidUntil(peer) <= now + (kAtOnce - 1) * kPause) return true;
  slowed_.Increment();
  return false;
}

void WrongTokens::Note(const net::Peer& peer, SteadyTime now) {
  const MutexLock lock(mutex_);
  wrong_.Increment();
  SteadyTime& until = PaidUntil(peer);
  until = std::max(until, now) + kPause;
  if (now < next_log_) return;
  next_log_ = now + std::chrono::seconds(1);
  spdlog::warn("admin: {} has sent a wrong admin token (sluice_admin_refused_total counts all)",
               peer.address);
}

Result<std::string_view> AdminAccess::Admit(const Caller& caller) const {
  if (trusted_listener) return std::string_view("the admin socket");
  for (const std::string& name : caller.peer.identities) {
    if (std::ranges::find(identities, name) != identities.end()) {
      return std::string_view(name);
    }
  }
  const std::string expected = token != nullptr ? token->Get() : "";
  if (expected.empty()) {
    return Error{ErrorCode::kPermissionDenied,
                 "admin calls are not served at this address; use the server's admin socket "
                 "(setting admin.listen), or give the server an admin token (setting "
                 "admin.token_file)"};
  }
  const auto given = BearerToken(caller.authorization);
  if (!given) {
    return Error{ErrorCode::kUnauthenticated,
                 "needs `authorization: Bearer TOKEN` with the server's admin token (setting "
                 "admin.token_file), or the server's admin socket (setting admin.listen)"};
  }
  if (wrong_tokens != nullptr && !wrong_tokens->MayTry(caller.peer, SteadyNow())) {
    return Error{ErrorCode::kResourceExhausted,
                 "too many wrong admin tokens from this address; try again in a second"};
  }
  if (IsSecret(*given, expected)) return std::string_view("the admin token");
  return Error{ErrorCode::kUnauthenticated,
               "this is not the server's admin token (setting admin.token_file)"};
}

bool AdminAccess::AdmitsByName(const net::Peer& peer) const {
  return std::ranges::find_first_of(peer.identities, identities) != peer.identities.end();
}

void AdminAccess::NoteRefused(const Caller& caller) const {
  if (wrong_tokens == nullptr || token == nullptr || token->Get().empty()) return;
  if (BearerToken(caller.authorization)) wrong_tokens->Note(caller.peer, SteadyNow());
}

AdminAccess::Caller OperatorOf(const rpc::Call& call) {
  return {.authorization = call.Metadata("authorization"), .peer = call.peer()};
}

Result<std::string_view> AdmitOperator(const AdminAccess& access,
                                       const AdminAccess::Caller& caller) {
  auto admitted = access.Admit(caller);
  if (!admitted) {
    if (admitted.error().code == ErrorCode::kUnauthenticated) access.NoteRefused(caller);
    spdlog::debug("admin: {} refused: {}", caller.peer.address, admitted.error().message);
  }
  return admitted;
}

}  // namespace sluice
