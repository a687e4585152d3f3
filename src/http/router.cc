#include "http/router.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sluice {

HttpHandler AnsweredBy(std::function<HttpResponse()> answer) {
  return [answer = std::move(answer)](const HttpRequest&, const HttpResponder& respond) {
    respond(answer());
  };
}

void Router::Handle(const HttpRequest& request, HttpResponder responder) const {
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const auto& it) { return it.path == request.path; });
  if (route == routes_.end()) return responder({.status = 404, .body = "not found\n"});
  const auto& methods = route->methods;
  if (std::find(methods.begin(), methods.end(), request.method) == methods.end()) {
    return responder({.status = 405,
                      .body = fmt::format("allowed: {}\n", fmt::join(methods, ", ")),
                      .headers = {{"Allow", fmt::format("{}", fmt::join(methods, ", "))}}});
  }
  route->handler(request, std::move(responder));
}

}  // namespace sluice
