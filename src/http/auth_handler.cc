#include "http/auth_handler.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <chrono>
#include <utility>

#include "http/auth_request.h"
#include "http/json_handler.h"
#include "http/rate_limit_headers.h"

namespace sluice {
namespace {

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
