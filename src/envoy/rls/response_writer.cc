#include "envoy/rls/response_writer.h"

#include <fmt/format.h>

#include "api/wire_writer.h"
#include "envoy/rls/dynamic_metadata.h"

namespace sluice::envoy {
namespace {

// The field numbers below are those of rls.proto.
void WriteStatus(WireWriter& to, const Status& from) {
  const std::size_t begin = to.BeginMessage(2);
  to.WriteVarint(1, static_cast<std::uint64_t>(from.code));
  if (from.limit) {
    const std::size_t limit = to.BeginMessage(2);
    const auto& [requests, unit, name] = *from.limit;
    if (requests != 0) to.WriteVarint(1, requests);
    if (unit != Unit::kUnknown) to.WriteVarint(2, static_cast<std::uint64_t>(unit));
    if (!name.empty()) to.WriteBytes(3, name);
    to.EndMessage(limit);
  }
  if (from.remaining != 0) to.WriteVarint(3, from.remaining);
  if (from.until_reset) {
    const std::size_t duration = to.BeginMessage(4);
    to.WriteVarint(1, static_cast<std::uint64_t>(from.until_reset->count()));
    to.EndMessage(duration);
  }
  to.EndMessage(begin);
}

void WriteHeader(WireWriter& to, std::string_view name, std::int64_t value) {
  const std::size_t begin = to.BeginMessage(3);
  to.WriteBytes(1, name);
  to.WriteBytes(2, fmt::to_string(value));
  to.EndMessage(begin);
}

void WriteHeaders(WireWriter& to, const RlsOptions& options, std::span<const Status> statuses) {
  const Status* const status = StatusForHeaders(statuses);
  if (status == nullptr) return;
  WriteHeader(to, options.limit_header, status->limit->requests_per_unit);
  WriteHeader(to, options.remaining_header, status->remaining);
  WriteHeader(to, options.reset_header,
              status->until_reset.value_or(std::chrono::seconds(0)).count());
}

}  // namespace

void WriteResponse(const Response& response, std::string& out) {
  WireWriter to(out);
  const Code overall = response.options.shadow_mode ? Code::kOk : OverallCode(response.statuses);
  to.WriteVarint(1, static_cast<std::uint64_t>(overall));
  for (const Status& status : response.statuses) WriteStatus(to, status);
  if (response.options.response_headers) WriteHeaders(to, response.options, response.statuses);
  if (response.options.dynamic_metadata) {
    WriteDynamicMetadata(response.request, response.passed, to);
  }
}

}  // namespace sluice::envoy
