// Access control by the setting `callers`: each caller has rights in some domains. A caller is
// identified by a name in its client certificate or by a bearer token, never by its address.
//
// Thread-safe. Immutable, except for the tokens.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "base/secret.h"
#include "core/caller.h"
#include "limiter/check_request.h"
#include "metrics/metrics_registry.h"
#include "rpc/handler.h"

namespace sluice {

class CallerAccess {
 public:
  // Reads the tokens. Fails with kInvalidArgument if a file cannot be used, or if two callers have
  // the same token or identity. `metrics` must outlive this.
  static Result<std::unique_ptr<CallerAccess>> Load(std::vector<Caller> callers,
                                                    MetricsRegistry& metrics);

  // Reads the tokens again. If that fails, the previous tokens stay in use, and the cause is logged
  // once. Blocks on disk I/O; call it from a worker every few seconds.
  void ReloadTokens() SLUICE_EXCLUDES(mutex_);

  // The caller, or kUnauthenticated. Valid as long as this object. Costs one lookup per identity;
  // for a token, also one digest and one lookup.
  Result<const Caller*> Identify(std::optional<std::string_view> authorization,
                                 std::span<const std::string> identities) const;
  Result<const Caller*> Identify(const rpc::Call& call) const {
    return Identify(call.Metadata("authorization"), call.peer().identities);
  }

  // These fail with kPermissionDenied if `caller` lacks the right, or lacks access to the domain.
  // MayCheck also sets request.may_lease: whether the caller may take leases. MayAsk tests `right`.
  Result<void> MayAsk(const Caller& caller, std::string_view domain, CallerRight right) const;
  Result<void> MayCheck(const Caller& caller, CheckRequest& request) const;
  // Accepts a malformed `lease_id`, which is refused later.
  Result<void> MayUseLease(const Caller& caller, std::string_view lease_id) const;
  Result<void> MayReadMetrics(const Caller& caller) const;

 private:
  using Tokens = std::map<SecretDigest, const Caller*>;

  CallerAccess(std::vector<Caller> callers, MetricsRegistry& metrics);
  Result<void> TakeIdentities();
  Result<Tokens> ReadTokens() const;
  void Use(Tokens tokens) SLUICE_REQUIRES(mutex_);
  Error Forbid(const Caller& caller, std::string_view what) const;

  const std::vector<Caller> callers_;
  std::unordered_map<std::string, const Caller*> identities_;
  Counter& unknown_;
  Counter& forbidden_;
  std::atomic<const Tokens*> tokens_ = nullptr;  // the last of all_tokens_

  Mutex mutex_;
  // Replaced tables are kept, because other threads may still read them. The tables are small and
  // few.
  std::vector<std::unique_ptr<const Tokens>> all_tokens_ SLUICE_GUARDED_BY(mutex_);
  std::string refused_ SLUICE_GUARDED_BY(mutex_);  // the cause last logged
};

}  // namespace sluice
