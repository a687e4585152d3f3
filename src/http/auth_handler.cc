#include "http/auth_handler.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "http/auth_request.h"
#include "http/json_handler.h"

namespace sluice {
namespace {

std::int64_t CeilSeconds(const google::protobuf::Duration& duration) {
  return duration.seconds() + (duration.nanos() > 0 ? 1 : 0);
}

// RFC 8941 allows integers of at most 15 digits.
std::int64_t Bounded(std::int64_t value) {
  return std::min<std::int64_t>(value, 999'999'999'999'999);
}

// The rule's name as an RFC 8941 string, which is ASCII. For the rule's limits after the first, "/"
// and the limit's index follow the name.
std::string NameOf(const v1::LimitStatus& limit) {
  std::string name = "\"";
  for (const char c : limit.rule()) {
    if (c == '"' || c == '\\') name += '\\';
    name += c >= ' ' && c < 0x7f ? c : '?';
  }
  if (limit.index() > 0) name += fmt::format("/{}", limit.index());
  return name += '"';
}

// Proxies refuse answers with large headers, and may then allow the request. Further limits are
// left out of the headers RateLimit-Policy and RateLimit.
constexpr std::size_t kMostHeaderBytes = 3000;

// RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers) have an item for each
// enforced limit whose state is known, named after its rule. Retry-After, in seconds rounded up, is
// set if a retry can succeed.
HttpHeaders RateLimitHeaders(const v1::CheckLimitResponse& response) {
  std::vector<std::string> policies;
  std::vector<std::string> states;
  std::size_t bytes = 0;
  for (const v1::LimitStatus& limit : response.limits()) {
    if (limit.shadow() || !limit.has_limit()) continue;
    const std::string name = NameOf(limit);
    std::string policy = fmt::format("{};q={}", name, Bounded(limit.limit()));
    std::string state = fmt::format("{};r={};t={}", name, Bounded(limit.remaining()),
                                    Bounded(CeilSeconds(limit.reset_after())));
    bytes += policy.size() + state.size();
    if (bytes > kMostHeaderBytes) break;
    policies.push_back(std::move(policy));
    states.push_back(std::move(state));
  }
  HttpHeaders headers;
  if (!policies.empty()) {
    headers.emplace_back("RateLimit-Policy", fmt::to_string(fmt::join(policies, ", ")));
    headers.emplace_back("RateLimit", fmt::to_string(fmt::join(states, ", ")));
  }
  if (response.has_retry_after()) {
    const std::int64_t seconds = std::max<std::int64_t>(1, CeilSeconds(response.retry_after()));
    headers.emplace_back("Retry-After", std::to_string(seconds));
  }
  return headers;
}

Duration ToDuration(const google::protobuf::Duration& from) {
  return std::chrono::seconds(from.seconds()) +
         std::chrono::ceil<Duration>(std::chrono::nanoseconds(from.nanos()));
}

// Never 403, which proxies treat as a denial.
int ErrorStatus(rpc::StatusCode code) {
  const int status = HttpStatusOf(code);
  return status == 403 ? 401 : status;
}

HttpResponse Answer(int deny_status, const rpc::Status& status, std::string_view bytes) {
  v1::CheckLimitResponse response;
  if (!status.ok()) return {.status = ErrorStatus(status.code), .body = status.message + "\n"};
  if (!response.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return {.status = 500, .body = "malformed answer\n"};
  }
  if (response.decision() == v1::DECISION_ALLOWED) {
    return {.status = 204,
            .body = {},
            .headers = RateLimitHeaders(response),
            .delay = ToDuration(response.wait())};
  }
  return {
      .status = deny_status, .body = "too many requests\n", .headers = RateLimitHeaders(response)};
}

}  // namespace

HttpRoute AuthRoute(std::string path, UnaryCalls& check_limit) {
  const auto handle = [&check_limit](const HttpRequest& request, HttpResponder responder) {
    auto asked = ParseAuthRequest(request);
    if (!asked) return responder({.status = 400, .body = asked.error().message + "\n"});
    check_limit.Start(
        request, std::move(asked->check),
        [deny_status = asked->deny_status](const rpc::Status& status, std::string_view bytes,
                                           const HttpResponder& respond) {
          respond(Answer(deny_status, status, bytes));
        },
        std::move(responder));
  };
  return {.path = std::move(path),
          .handler = handle,
          .methods = {"GET", "HEAD", "POST"},
          .own_site_only = true};
}

}  // namespace sluice
