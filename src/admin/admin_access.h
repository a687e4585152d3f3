// Access control for operator calls: explain, list, reset, reload, watch. The same for all
// protocols. A peer's address never grants access, since a proxy on the machine gives every caller
// a local address.
//
// AdminAccess is a plain value; thread-safe while it is not changed.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/secret.h"
#include "metrics/metrics_registry.h"
#include "net/peer.h"
#include "rpc/handler.h"

namespace sluice {

// Counts wrong admin tokens, logs at most one of them a second, and slows peers that try many:
// after ten wrong tokens, a peer may try one token a second. All peers of a network
// (net::Peer::network) count as one peer. So do all networks whose hashes share a slot.
//
// Thread-safe.
class WrongTokens {
 public:
  // `metrics` must outlive this.
  explicit WrongTokens(MetricsRegistry& metrics);

  // Whether the peer may try a token. If not, the refusal is counted.
  bool MayTry(const net::Peer& peer, SteadyTime now) SLUICE_EXCLUDES(mutex_);
  // Counts and logs a wrong token of the peer.
  void Note(const net::Peer& peer, SteadyTime now) SLUICE_EXCLUDES(mutex_);

 private:
  static constexpr std::chrono::seconds kPause{1};
  static constexpr int kAtOnce = 10;

  SteadyTime& PaidUntil(const net::Peer& peer) SLUICE_REQUIRES(mutex_);

  Counter& wrong_;
  Counter& slowed_;
  Mutex mutex_;
  // By the hash of the peer's network: when all wrong tokens of the peer are forgotten. One token
  // is forgotten each second.
  std::array<SteadyTime, 1024> paid_until_ SLUICE_GUARDED_BY(mutex_){};
  SteadyTime next_log_ SLUICE_GUARDED_BY(mutex_);
};

struct AdminAccess {
  // Every caller is an operator, because the listener is a unix socket of the server's user.
  bool trusted_listener = false;
  // Grants access to callers that send `authorization: Bearer <token>`. Null or empty: no token is
  // accepted. Must outlive this.
  const Secret* token = nullptr;
  // Grants access to callers whose client certificate has one of these (net::Peer::identities).
  std::vector<std::string> identities;

  // Slows callers with wrong tokens. Null: callers are not slowed. Must outlive this.
  WrongTokens* wrong_tokens = nullptr;

  struct Caller {
    // The header, if the request has exactly one.
    std::optional<std::string_view> authorization;
    const net::Peer& peer;
  };

  // The operator's name for the log: the identity that has access, "the admin socket" or "the admin
  // token". The error never contains a token. kUnauthenticated and kResourceExhausted mean that a
  // valid admin token can grant access.
  Result<std::string_view> Admit(const Caller& caller) const;

  // Whether a name in the caller's certificate grants access.
  bool AdmitsByName(const net::Peer& peer) const;

  // Call this if Admit has refused the caller with kUnauthenticated and nothing else admits the
  // caller. Notes a wrong token if the caller has sent a token.
  void NoteRefused(const Caller& caller) const;
};

AdminAccess::Caller OperatorOf(const rpc::Call& call);

// Admits the caller, or notes the refusal.
Result<std::string_view> AdmitOperator(const AdminAccess& access,
                                       const AdminAccess::Caller& caller);
inline Result<std::string_view> AdmitOperator(const AdminAccess& access, const rpc::Call& call) {
  return AdmitOperator(access, OperatorOf(call));
}

}  // namespace sluice
