// The check of one descriptor of a request. Reused for later requests.
//
// Loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "envoy/rls/options.h"
#include "envoy/rls/request.h"
#include "envoy/rls/status.h"
#include "envoy/rules/guide.h"
#include "limiter/check_call.h"

namespace sluice::envoy {

class DescriptorCheck final : private CheckCall {
 public:
  class Owner {
   public:
    // `error` is null unless the check has failed. May be called before Start or GiveBack returns.
    virtual void OnDecided(DescriptorCheck& check, const Error* error) = 0;

   protected:
    ~Owner() = default;
  };

  // The parameters shared by all descriptors of a request.
  struct Terms {
    std::string_view domain;
    std::shared_ptr<const RulesInForce> rules;
    SteadyTime received;
    SteadyTime deadline = SteadyTime::max();
    bool in_order = false;
    bool ask_store = false;
    bool count_denied = true;
  };

  // Both must outlive the check.
  DescriptorCheck(Limiter& limiter, Owner& owner) : CheckCall(limiter), owner_(owner) {}

  // Before Start: either FollowTo, which finds the limit in the rules, or BringLimit, if the
  // request has a limit of its own; then SetHits.
  void FollowTo(const DomainGuide& domain, std::span<const Entry> entries);
  void BringLimit(const RequestedLimit& limit, std::span<const Entry> entries);
  void SetHits(std::uint64_t hits, bool is_negative);  // more than 2^52 hits count as 2^52

  // Null if the rules have no limit for the entries, or the request has its own.
  const Target* target() const { return brings_limit_ ? nullptr : walk_.target; }
  // The name of the counter: descriptors with equal names share one.
  std::string_view counter() const { return walk_.counter; }
  std::span<const Place* const> passed() const { return walk_.passed; }
  // The rule's name in metrics.
  std::string_view metric() const;

  // `position` is the descriptor's in the request. The texts of `terms` must live until OnDecided.
  void Start(const Terms& terms, std::size_t position);

  // Refunds the hits that the check was granted.
  void GiveBack(const Terms& terms);

  // The functions below are valid from OnDecided on.
  std::size_t position() const { return position_; }
  const Status& status() const { return status_; }
  std::uint64_t hits() const { return hits_; }
  bool is_negative() const { return is_negative_; }
  bool is_over() const { return is_over_; }        // also in shadow mode
  bool from_cache() const { return from_cache_; }  // denied by the deny cache
  bool took() const { return took_; }              // its hits were granted and counted

 private:
  void Ask(const Terms& terms, const Demand& demand);
  void OnAnswer(const Result<CheckAnswer>& answer) override;
  void Read(const CheckAnswer& answer);
  void ReadLimit(const LimitAnswer& limit);
  CurrentLimit CurrentLimitOf(const LimitAnswer& limit) const;

  Owner& owner_;
  Guide::Walk walk_;
  std::size_t position_ = 0;
  std::uint64_t hits_ = 1;
  bool is_negative_ = false;
  bool brings_limit_ = false;
  RequestedLimit brought_;
  IndexedLimit brought_limit_;
  Time decided_at_;
  Status status_;
  bool is_over_ = false;
  bool from_cache_ = false;
  bool took_ = false;
};

}  // namespace sluice::envoy
