#include "limiter/limiter_metrics.h"

#include <string>

namespace sluice {
namespace {

using std::chrono::microseconds;

// The bounds are densest where callers notice a difference: below 1 ms, answers are fast; above 20
// ms, many callers time out.
constexpr std::array<Histogram::Duration, 21> kBounds{
    microseconds(20),       microseconds(50),     microseconds(100),     microseconds(200),
    microseconds(300),      microseconds(500),    microseconds(750),     microseconds(1'000),
    microseconds(1'500),    microseconds(2'000),  microseconds(3'000),   microseconds(5'000),
    microseconds(7'500),    microseconds(10'000), microseconds(15'000),  microseconds(20'000),
    microseconds(30'000),   microseconds(50'000), microseconds(100'000), microseconds(250'000),
    microseconds(1'000'000)};

Counter& Refused(MetricsRegistry& metrics, const char* code) {
  return metrics.CounterFor("sluice_refused_total", "Requests answered with an error, not decided.",
                            {{"code", code}});
}

Counter& Units(MetricsRegistry& metrics, const char* fate) {
  return metrics.CounterFor("sluice_fallback_units_total",
                            "Units of cost admitted while the store failed: owed (to be charged to "
                            "it), charged, unknown (perhaps counted) or not_kept (dropped).",
                            {{"fate", fate}});
}

Counter& LeaseUnits(MetricsRegistry& metrics, const char* change) {
  return metrics.CounterFor("sluice_lease_units_total",
                            "Units of settled leases: returned (held, but not used), charged (used "
                            "beyond what was held) or dropped (beyond what the limit can hold).",
                            {{"change", change}});
}

Counter& Settlements(MetricsRegistry& metrics, const char* outcome) {
  return metrics.CounterFor("sluice_lease_settlements_total",
                            "Calls that settle or release a lease of units, by outcome.",
                            {{"outcome", outcome}});
}

}  // namespace

LimiterMetrics::LimiterMetrics(MetricsRegistry& metrics)
    : check_duration(metrics.HistogramFor("sluice_check_duration_seconds",
                                          "Time from reading a request to returning its answer.",
                                          kBounds)),
      store_duration(metrics.HistogramFor("sluice_store_duration_seconds",
                                          "Time from asking the store to its answer or failure.",
                                          kBounds)),
      lost_writes(
          metrics.CounterFor("sluice_lost_writes_total",
                             "Charges and refunds that were lost, or perhaps lost, because the "
                             "store failed.")),
      units_owed(Units(metrics, "owed")),
      units_not_kept(Units(metrics, "not_kept")),
      units_unknown(Units(metrics, "unknown")),
      units_charged(Units(metrics, "charged")),
      leases_taken(metrics.CounterFor("sluice_leases_taken_total", "Leases that took units.")),
      lease_units_returned(LeaseUnits(metrics, "returned")),
      lease_units_charged(LeaseUnits(metrics, "charged")),
      lease_units_dropped(LeaseUnits(metrics, "dropped")),
      refused_{{ErrorCode::kInvalidArgument, Refused(metrics, "invalid_argument")},
               {ErrorCode::kUnavailable, Refused(metrics, "unavailable")},
               {ErrorCode::kDeadlineExceeded, Refused(metrics, "deadline_exceeded")}},
      refused_otherwise_(Refused(metrics, "other")),
      settlements_{&Settlements(metrics, "settled"), &Settlements(metrics, "already_settled"),
                   &Settlements(metrics, "not_found"), &Settlements(metrics, "queued")} {
  for (std::size_t i = 0; i < store_failures_.size(); ++i) {
    store_failures_[i] = &metrics.CounterFor(
        "sluice_store_failures_total", "Checks that the store failed to decide, by cause.",
        {{"kind", std::string(ToString(static_cast<StoreFailure>(i)))}});
  }
}

void LimiterMetrics::Count(LeaseOutcome outcome) const {
  settlements_[static_cast<std::size_t>(outcome) - 1]->Increment();
}

void LimiterMetrics::CountSettled(const StoreCheck& settlement) const {
  const auto add = [](Counter& to, std::int64_t units) {
    to.Increment(static_cast<std::uint64_t>(units));
  };
  for (const CounterCheck& counter : settlement.counters) {
    if (TakesLeases(*counter.limit) || counter.units == kAsTaken) continue;
    if (counter.held == Held::kNothing) continue;  // the settlement does not change the counter
    const std::int64_t more = counter.units - counter.held;
    if (more <= 0) {
      add(lease_units_returned, -more);
    } else {
      add(lease_units_charged, more - counter.verdict.dropped);
      add(lease_units_dropped, counter.verdict.dropped);
    }
  }
}

void LimiterMetrics::CountRefused(ErrorCode code) const {
  const auto found = refused_.find(code);
  (found == refused_.end() ? refused_otherwise_ : found->second).Increment();
}

}  // namespace sluice
