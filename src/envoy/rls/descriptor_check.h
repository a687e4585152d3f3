// The check of one descriptor of a request. Reused for later requests.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include <envoy/service/ratelimit/v3/rls.pb.h>

#include "envoy/rules/guide.h"
#include "limiter/check_call.h"

namespace sluice::envoy {

using Request = ::envoy::service::ratelimit::v3::RateLimitRequest;
using RequestedDescriptor = ::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
using Response = ::envoy::service::ratelimit::v3::RateLimitResponse;

class DescriptorCheck final : private CheckCall {
 public:
  // Called when the check is decided, possibly before Start or Refund returns. `error` is null
  // unless the check has failed.
  using OnDecided = std::function<void(const DescriptorCheck& check, const Error* error)>;

  // The parameters shared by all descriptors of a request.
  struct Context {
    std::string_view domain;
    std::shared_ptr<const ActiveRules> rules;
    SteadyTime received;
    SteadyTime deadline = SteadyTime::max();
    bool in_order = false;
    bool ask_store = false;
    bool count_denied = true;
    bool quota_mode = false;   // of all limits
    bool shadow_mode = false;  // likewise
  };

  // `limiter` must outlive the check.
  DescriptorCheck(Limiter& limiter, OnDecided on_decided)
      : CheckCall(limiter), on_decided_(std::move(on_decided)) {}

  // Before Start, call FindLimit (or SetOverride, if the descriptor contains a limit), then SetHits
  // and SetStatus.
  void FindLimit(const DomainGuide& domain, std::span<const Entry> entries);
  void SetOverride(const RequestedDescriptor::RateLimitOverride& limit,
                   std::span<const Entry> entries);
  void SetHits(std::uint64_t hits, bool is_negative);  // more than 2^52 hits count as 2^52
  // `status` receives the answer. It must live until the last OnDecided and the last call of
  // status().
  void SetStatus(Response::DescriptorStatus& status) { status_ = &status; }

  // Null if the rules have no limit for the entries, or if the descriptor contains a limit.
  const Target* target() const { return has_override_ ? nullptr : match_.target; }
  // The name of the counter. Only descriptors with equal names can share a counter.
  std::string_view counter() const { return match_.counter; }
  std::span<const TrieNode* const> passed() const { return match_.passed; }
  // The rule's name in metrics.
  std::string_view metric() const;

  // The text of `context.domain` must live until OnDecided.
  void Start(const Context& context);

  // Refunds the hits that Start has charged.
  void Refund(const Context& context);

  // The functions below are valid from OnDecided on.
  const Response::DescriptorStatus& status() const { return *status_; }
  std::uint64_t hits() const { return hits_; }
  bool is_negative() const { return is_negative_; }
  bool is_quota() const { return is_quota_; }        // its limit is in quota_mode
  bool is_over() const { return is_over_; }          // over its limit; also in shadow mode
  bool from_cache() const { return from_cache_; }    // denied by the deny cache
  bool has_charged() const { return has_charged_; }  // the hits are charged, and within the limit

 private:
  void Ask(const Context& context, const Demand& demand);
  void OnAnswer(const Result<CheckAnswer>& answer) override;
  void Read(const CheckAnswer& answer);
  void ReadLimit(const LimitAnswer& limit);
  void ReadCurrentLimit(const LimitAnswer& limit);
  void ReadQuota(const LimitAnswer& limit);

  const OnDecided on_decided_;
  TrieMatch match_;
  std::uint64_t hits_ = 1;
  bool is_negative_ = false;
  bool has_override_ = false;
  Unit override_unit_ = Unit::kUnknown;
  std::uint32_t override_requests_ = 0;  // per unit
  IndexedLimit override_limit_;
  Time decided_at_;
  Response::DescriptorStatus* status_ = nullptr;
  bool is_quota_ = false;
  bool is_shadow_ = false;
  bool is_over_ = false;
  bool from_cache_ = false;
  bool has_charged_ = false;
  bool refunds_request_ = false;
};

}  // namespace sluice::envoy
