// What Linux knows of this process, under the names that all of Prometheus' client libraries use:
// process_resident_memory_bytes, process_cpu_seconds_total and so on.
#pragma once

#include "metrics/metrics_registry.h"

namespace sluice {

// Adds them to `metrics`; they are read from /proc when the page is made. What cannot be read is 0.
void ShowProcess(MetricsRegistry& metrics);

}  // namespace sluice
