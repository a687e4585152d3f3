#include "envoy/rls/hit_counters.h"

#include <algorithm>
#include <cmath>

#include "envoy/rls/descriptor_check.h"
#include "envoy/rls/peer_metrics.h"

namespace sluice::envoy {

void HitCounters::Count(std::string_view domain, const DescriptorCheck& check) {
  if (check.is_negative() || check.hits() == 0) return;
  Row& row = RowOf(domain, check.metric());
  row.total.Increment(check.hits());
  check.is_over() ? CountOver(row, check) : CountWithin(row, check);
}

void HitCounters::CountOver(Row& row, const DescriptorCheck& check) const {
  row.over.Increment(check.hits());
  if (check.from_cache()) row.over_by_cache.Increment(check.hits());
  if (check.status().code() == Response::OK) row.shadow.Increment(check.hits());
}

void HitCounters::CountWithin(Row& row, const DescriptorCheck& check) const {
  row.within.Increment(check.hits());
  const auto& status = check.status();
  if (!status.has_current_limit()) return;
  const double limit = status.current_limit().requests_per_unit();
  const double near = std::floor(limit * near_limit_ratio_);
  const double beyond = limit - status.limit_remaining() - near;
  if (beyond <= 0) return;
  row.near.Increment(std::min(check.hits(), static_cast<std::uint64_t>(beyond)));
}

HitCounters::Row& HitCounters::RowOf(std::string_view domain, std::string_view rule) {
  key_.assign(domain).append(1, '\0').append(rule);
  if (const auto found = rows_.find(key_); found != rows_.end()) return found->second;
  if (rows_.size() >= kMaxRows) rows_.clear();
  return rows_.emplace(key_, MakeRow(domain, rule)).first->second;
}

HitCounters::Row HitCounters::MakeRow(std::string_view domain, std::string_view rule) const {
  const MetricLabels labels{{"domain", std::string(domain)}, {"rule", std::string(rule)}};
  const auto counter = [&](std::string_view name, std::string_view help, std::string_view kind) {
    Counter* const peer = peer_ == nullptr ? nullptr : &peer_->HitsOf(kind, domain, rule);
    return Pair(metrics_.CounterFor(name, help, labels), peer);
  };
  return {.total = counter("sluice_envoy_hits_total", "Hits of Envoy's descriptors.", "total_hits"),
          .over = counter("sluice_envoy_over_limit_hits_total", "Of these, over the limit.",
                          "over_limit"),
          .over_by_cache = counter("sluice_envoy_over_limit_cached_hits_total",
                                   "Over the limit, and denied without asking the store.",
                                   "over_limit_with_local_cache"),
          .near = counter("sluice_envoy_near_limit_hits_total",
                          "Within the limit, but near it: envoy.near_limit_ratio.", "near_limit"),
          .within =
              counter("sluice_envoy_within_limit_hits_total", "Within the limit.", "within_limit"),
          .shadow = counter("sluice_envoy_shadow_mode_hits_total",
                            "Over the limit, but allowed by shadow_mode.", "shadow_mode")};
}

}  // namespace sluice::envoy
