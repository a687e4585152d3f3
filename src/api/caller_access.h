// Who may ask, each in its domains and with its rights: the setting `callers`. A caller is known by
// a name in its client certificate, or by a bearer token; never by its address.
//
// Thread-safe. Tokens change while it is in use, nothing else does.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
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
  // Reads the tokens. Fails with kInvalidArgument: a file cannot be used, or two callers have one
  // token or identity. `metrics` must outlive this.
  static Result<std::unique_ptr<CallerAccess>> Load(std::vector<Caller> callers,
                                                    MetricsRegistry& metrics);

  // Reads the tokens again. If that fails, those of before stay in use, and the cause is logged
  // once. Blocks on the disk: for a worker, every few seconds.
  void ReloadTokens() SLUICE_EXCLUDES(mutex_);

  // One digest and one look-up for a token. Valid as long as this. Fails with kUnauthenticated.
  Result<const Caller*> Identify(std::optional<std::string_view> authorization,
                                 std::span<const std::string> identities) const;
  Result<const Caller*> Identify(const rpc::Call& call) const {
    return Identify(call.Metadata("authorization"), call.peer().identities);
  }

  // Whether `caller` may; else kPermissionDenied. MayCheck also keeps `request` from leases that
  // the caller may not take. MayAsk: one of the rights that a check needs.
  Result<void> MayAsk(const Caller& caller, std::string_view domain, CallerRight right) const;
  Result<void> MayCheck(const Caller& caller, CheckRequest& request) const;
  // `lease_id` is refused later if it is malformed.
  Result<void> MayUseLease(const Caller& caller, std::string_view lease_id) const;
  Result<void> MayReadMetrics(const Caller& caller) const;

 private:
  struct HashDigest {
    std::size_t operator()(const SecretDigest& digest) const;
  };
  using Tokens = std::unordered_map<SecretDigest, const Caller*, HashDigest>;

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
  // Replaced ones stay, for those who still look: they are small and few.
  std::vector<std::unique_ptr<const Tokens>> all_tokens_ SLUICE_GUARDED_BY(mutex_);
  std::string refused_ SLUICE_GUARDED_BY(mutex_);  // the cause last logged
};

}  // namespace sluice
