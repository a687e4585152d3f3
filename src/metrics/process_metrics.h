// The standard process metrics of Prometheus' client libraries: process_resident_memory_bytes,
// process_cpu_seconds_total and so on.
#pragma once

#include "metrics/metrics_registry.h"

namespace sluice {

// Adds the metrics to `metrics`. Render reads most of them from /proc. A value that cannot be read
// is 0.
void ShowProcess(MetricsRegistry& metrics);

}  // namespace sluice
