#include "http/rate_limit_headers.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

namespace sluice {
namespace {

std::int64_t CeilSeconds(const google::protobuf::Duration& duration) {
  return duration.seconds() + (duration.nanos() > 0 ? 1 : 0);
}

// The rule's name as an RFC 8941 string, which is ASCII. Limits after the first get their index.
std::string NameOf(const v1::LimitStatus& limit) {
  std::string name = "\"";
  for (const char c : limit.rule()) {
    if (c == '"' || c == '\\') name += '\\';
    name += c >= ' ' && c < 0x7f ? c : '?';
  }
  if (limit.index() > 0) name += fmt::format("/{}", limit.index());
  return name += '"';
}

void AppendItem(std::string& list, std::string_view item) {
  if (!list.empty()) list += ", ";
  list += item;
}

}  // namespace

HttpHeaders RateLimitHeaders(const v1::CheckLimitResponse& response) {
  std::string policies;
  std::string states;
  for (const v1::LimitStatus& limit : response.limits()) {
    if (limit.shadow() || !limit.has_limit()) continue;
    const std::string name = NameOf(limit);
    AppendItem(policies, fmt::format("{};q={}", name, limit.limit()));
    AppendItem(states, fmt::format("{};r={};t={}", name, limit.remaining(),
                                   CeilSeconds(limit.reset_after())));
  }
  HttpHeaders headers;
  if (!policies.empty()) {
    headers.emplace_back("RateLimit-Policy", std::move(policies));
    headers.emplace_back("RateLimit", std::move(states));
  }
  if (response.has_retry_after()) {
    const std::int64_t seconds = std::max<std::int64_t>(1, CeilSeconds(response.retry_after()));
    headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  return headers;
}

}  // namespace sluice
