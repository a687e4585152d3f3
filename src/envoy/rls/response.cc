#include "envoy/rls/response.h"

#include <fmt/format.h>

#include "envoy/rls/dynamic_metadata.h"

namespace sluice::envoy {
namespace {

bool IsDenied(const DescriptorCheck& check) {
  return check.status().code() == Response::OVER_LIMIT;
}

// The status for the headers: the last one over its limit that is not in quota_mode. Without such a
// status, the first with the least remaining. Null if no status has a limit.
const Response::DescriptorStatus* StatusForHeaders(DecidedChecks checks) {
  const Response::DescriptorStatus* least = nullptr;
  const Response::DescriptorStatus* over = nullptr;
  for (const auto& check : checks) {
    const auto& status = check->status();
    if (!status.has_current_limit()) continue;
    if (least == nullptr || status.limit_remaining() < least->limit_remaining()) least = &status;
    if (IsDenied(*check) && !check->is_quota()) over = &status;
  }
  return over != nullptr ? over : least;
}

void AddHeader(const std::string& name, std::int64_t value, Response& to) {
  auto& header = *to.add_response_headers_to_add();
  header.set_key(name);
  header.set_value(fmt::to_string(value));
}

void AddHeaders(const Decided& from, Response& to) {
  const auto* const status = StatusForHeaders(from.checks);
  if (status == nullptr) return;
  AddHeader(from.settings.limit_header, status->current_limit().requests_per_unit(), to);
  AddHeader(from.settings.remaining_header, status->limit_remaining(), to);
  AddHeader(from.settings.reset_header, status->duration_until_reset().seconds(), to);
}

}  // namespace

Response::Code OverallCode(DecidedChecks checks) {
  std::size_t quotas = 0;
  std::size_t quotas_over = 0;
  for (const auto& check : checks) {
    if (IsDenied(*check) && !check->is_quota()) return Response::OVER_LIMIT;
    quotas += check->is_quota();
    quotas_over += check->is_quota() && IsDenied(*check);
  }
  return quotas > 0 && quotas_over == quotas ? Response::OVER_LIMIT : Response::OK;
}

void Complete(const Decided& decided, Response& response) {
  response.set_overall_code(decided.settings.shadow_mode ? Response::OK
                                                         : OverallCode(decided.checks));
  if (!decided.settings.limit_header.empty()) AddHeaders(decided, response);
  if (decided.settings.dynamic_metadata) {
    FillDynamicMetadata(decided.request, decided.passed, *response.mutable_dynamic_metadata());
  }
}

}  // namespace sluice::envoy
