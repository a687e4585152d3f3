// ShouldRateLimit: parses the request and writes the response. Each descriptor with a limit is a
// separate check; the response is sent when all are decided.
//
// Loop thread only. At most kChecksPerIteration checks are started per loop iteration, so that a
// long request does not delay other callers.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller_access.h"
#include "config/settings.h"
#include "envoy/rls/descriptor_check.h"
#include "envoy/rls/hit_counters.h"
#include "envoy/rls/messages.h"
#include "envoy/rules/guide.h"
#include "limiter/limiter.h"
#include "net/loop.h"
#include "rpc/handler.h"

namespace sluice::envoy {

class ShouldRateLimitHandler final : public rpc::UnaryHandler {
 public:
  static constexpr std::size_t kChecksPerIteration = 64;

  // All of these must outlive the handler.
  struct Dependencies {
    net::Loop& loop;
    Limiter& limiter;
    const EnvoySettings& settings;
    HitCounters& counters;            // of the loop
    std::string& response;            // reused by all handlers of the loop
    const CallerAccess* access;       // null: every caller is admitted
    const PeerMetrics* peer_metrics;  // may be null
  };

  explicit ShouldRateLimitHandler(const Dependencies& dependencies) : dependencies_(dependencies) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;
  void OnCancel() override { canceled_ = true; }

 private:
  // The steps of a call.
  Result<void> MayAsk(const Caller& caller) const;
  void Begin(const rpc::Call& call);
  void FindLimits(const DomainGuide& domain);
  void DropReplaced();
  bool MayShareCounters() const;
  void StartSome();
  void OnDecided(const DescriptorCheck& check, const Error* error);
  void CountDecided(std::size_t count);
  void FinishWithStatuses();

  // If denied requests are not counted, and the request is denied or has failed, the hits that its
  // checks have charged are refunded.
  bool MustRefund() const;
  void RefundAll();

  DescriptorCheck& NextCheck();
  DecidedChecks Checks() const { return {checks_.data(), check_count_}; }
  void Refuse(const rpc::Status& error);
  void ForgetCall();

  const Dependencies dependencies_;

  // State of the current call.
  Request request_;
  std::size_t request_bytes_ = 0;
  std::vector<Entry> entries_;  // of one descriptor
  DescriptorCheck::Context context_;
  const DomainGuide* domain_ = nullptr;                   // lives as long as context_.rules
  std::vector<std::unique_ptr<DescriptorCheck>> checks_;  // the first check_count_ are in use
  std::size_t check_count_ = 0;
  Response response_;                    // with the statuses of all descriptors
  std::vector<const TrieNode*> passed_;  // on the paths of all descriptors
  std::optional<Error> error_;           // the first one
  std::size_t started_ = 0;
  // The number of checks or refunds without a result, including those not yet started.
  // StartSome and RefundAll add one while they run.
  std::size_t undecided_ = 0;
  bool refunds_ = false;
  bool canceled_ = false;
};

}  // namespace sluice::envoy
