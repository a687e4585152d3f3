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

  // Reads the tokens again. If a caller's file cannot be read, or has a token of another
  // caller, the caller's previous tokens stay in use. The causes are logged once. Blocks on disk
  // I/O; call it from a worker every few seconds.
  void ReloadTokens() SLUICE_EXCLUDES(mutex_);

  // The caller; null if unknown. Valid as long as this object. Costs one lookup per identity; for a
  // token, also one digest and one lookup.
  const Caller* Find(std::optional<std::string_view> authorization,
                     std::span<const std::string> identities) const;
  // Counts an unknown caller. Returns kUnauthenticated.
  Error RefuseUnknown() const;
  // The same as Find, but refuses unknown callers.
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
  // The tokens in the caller's file. Fails if another caller has one of them.
  static Result<std::vector<SecretDigest>> ReadTokenFile(const Caller& caller, const Tokens& tokens,
                                                         const Tokens& previous);
  // If a caller's file cannot be used, adds the cause to `errors` and takes the caller's tokens
  // from `previous`.
  Tokens ReadTokens(const Tokens& previous, std::vector<std::string>& errors) const;
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
  std::vector<std::string> errors_ SLUICE_GUARDED_BY(mutex_);  // logged last
};

}  // namespace sluice
