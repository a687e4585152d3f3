// ShouldRateLimit: from the request on the wire to the answer on it. Each descriptor with a limit
// is a check of its own; the answer leaves when all are decided.
//
// Loop thread only. At most kChecksPerIteration checks are started per turn of the loop, so that a
// long request does not hold up other callers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller_access.h"
#include "envoy/rls/descriptor_check.h"
#include "envoy/rls/hit_counters.h"
#include "envoy/rls/options.h"
#include "envoy/rls/request.h"
#include "envoy/rls/status.h"
#include "envoy/rules/guide.h"
#include "limiter/limiter.h"
#include "net/loop.h"
#include "rpc/handler.h"

namespace sluice::envoy {

class ShouldRateLimitHandler final : public rpc::UnaryHandler, private DescriptorCheck::Owner {
 public:
  static constexpr std::size_t kChecksPerIteration = 64;

  // All of it must outlive the handler.
  struct Parts {
    net::Loop& loop;
    Limiter& limiter;
    const RlsOptions& options;
    HitCounters& counters;       // of the loop
    std::string& response;       // a buffer of the loop
    const CallerAccess* access;  // null: everybody may ask
  };

  explicit ShouldRateLimitHandler(const Parts& parts) : parts_(parts) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;
  void OnCancel() override { cancelled_ = true; }

 private:
  // The steps of a call.
  Result<void> MayAsk(const Caller& caller) const;
  void Begin(const rpc::Call& call);
  void FollowAll(const DomainGuide& domain);
  void DropReplaced();
  bool MayShareCounters() const;
  void StartSome();
  void OnDecided(DescriptorCheck& check, const Error* error) override;
  void CountDecided(std::size_t count);
  void FinishWithStatuses();

  // Of a domain that is all_or_nothing: what was granted is taken back if the whole is over.
  bool TakesBack() const;
  void GiveBackAll();

  DescriptorCheck& NextCheck();
  void ForgetCall();

  const Parts parts_;

  // Of one call.
  Request request_;
  DescriptorCheck::Terms terms_;
  const DomainGuide* domain_ = nullptr;                   // lives as long as terms_.rules
  std::vector<std::unique_ptr<DescriptorCheck>> checks_;  // the first check_count_ are in use
  std::size_t check_count_ = 0;
  std::vector<std::size_t> positions_;  // of checks_, in the request
  std::vector<Status> statuses_;        // of all descriptors
  std::vector<const Place*> passed_;    // on the ways of all descriptors
  std::optional<Error> error_;          // the first
  std::size_t started_ = 0;
  std::size_t undecided_ = 0;  // with those that are not started; one more while StartSome runs
  bool gives_back_ = false;
  bool cancelled_ = false;
};

}  // namespace sluice::envoy
