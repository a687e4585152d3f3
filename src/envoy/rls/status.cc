#include "envoy/rls/status.h"

#include <cstddef>

namespace sluice::envoy {

Code OverallCode(std::span<const Status> statuses) {
  std::size_t quotas = 0;
  std::size_t quotas_over = 0;
  for (const Status& status : statuses) {
    const bool over = status.code == Code::kOverLimit;
    if (over && !status.quota) return Code::kOverLimit;
    quotas += status.quota;
    quotas_over += status.quota && over;
  }
  return quotas > 0 && quotas_over == quotas ? Code::kOverLimit : Code::kOk;
}

const Status* StatusForHeaders(std::span<const Status> statuses) {
  const Status* least = nullptr;
  const Status* over = nullptr;
  for (const Status& status : statuses) {
    if (!status.limit) continue;
    if (least == nullptr || status.remaining < least->remaining) least = &status;
    if (status.code == Code::kOverLimit && !status.quota) over = &status;
  }
  return over != nullptr ? over : least;
}

}  // namespace sluice::envoy
