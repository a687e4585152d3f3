#include "http/router.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/log.h"

namespace sluice {
namespace {

// Whether `origin` ("https://shop.test:8443") has no host, or differs from the request's host and
// port.
bool IsForeign(std::string_view origin, const HttpHeaders& headers) {
  constexpr std::string_view kMark = "://";
  const auto mark = origin.find(kMark);
  const auto host = OnlyHeader(headers, "Host");
  return mark == std::string_view::npos || !host ||
         !IsName(origin.substr(mark + kMark.size()), *host);
}

bool IsOfAnotherSite(const HttpHeaders& headers) {
  return std::ranges::any_of(headers, [&](const auto& header) {
    const auto& [name, value] = header;
    if (IsName(name, "Origin")) return IsForeign(value, headers);
    return IsName(name, "Sec-Fetch-Site") && IsName(value, "cross-site");
  });
}

}  // namespace

HttpHandler AnsweredBy(std::function<HttpResponse()> answer) {
  return [answer = std::move(answer)](const HttpRequest&, const HttpResponder& respond) {
    respond(answer());
  };
}

void Router::Handle(const HttpRequest& request, HttpResponder responder) const {
  const auto route = std::ranges::find(routes_, request.path, &HttpRoute::path);
  const bool is_probe = route != routes_.end() && route->is_probe;
  if (!request.has_place && !is_probe) return responder(Busy());
  if (route == routes_.end()) return responder({.status = 404, .body = "not found\n"});
  if (std::ranges::find(route->methods, request.method) == route->methods.end()) {
    const std::string allowed = fmt::to_string(fmt::join(route->methods, ", "));
    return responder(
        {.status = 405, .body = "allowed: " + allowed + "\n", .headers = {{"Allow", allowed}}});
  }
  if (route->own_site_only && IsOfAnotherSite(request.headers)) return RefuseSite(responder);
  route->handler(request, std::move(responder));
}

void Router::RefuseSite(const HttpResponder& responder) const {
  responder({.status = 403, .body = "requests from pages of other sites are refused\n"});
  const SteadyTime now = SteadyNow();
  SteadyTime next = next_log_.load(std::memory_order_relaxed);
  if (now < next || !next_log_.compare_exchange_strong(next, now + std::chrono::seconds(1))) return;
  spdlog::warn(
      "HTTP: a request from another site's page was refused (Origin or Sec-Fetch-Site); a proxy "
      "must not forward these headers");
}

}  // namespace sluice
