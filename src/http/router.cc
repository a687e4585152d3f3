#include "http/router.h"

#include <algorithm>
#include <exception>
#include <string_view>

namespace sluice {
namespace {

namespace http = boost::beast::http;

std::string_view Path(const BeastRequest& request) {
  const std::string_view target(request.target().data(), request.target().size());
  return target.substr(0, target.find('?'));
}

}  // namespace

HttpResponse Router::Dispatch(const BeastRequest& request) const {
  const auto route = std::find_if(routes_.begin(), routes_.end(),
                                  [&](const auto& it) { return it.path == Path(request); });
  if (route == routes_.end()) return {.status = 404, .body = "not found\n"};
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return {.status = 405, .body = "only GET and HEAD are allowed\n"};
  }
  return route->answer();
}

BeastResponse Router::Answer(const BeastRequest& request) const {
  HttpResponse answer = Dispatch(request);
  BeastResponse response(static_cast<http::status>(answer.status), request.version());
  response.set(http::field::content_type, answer.content_type);
  response.set(http::field::cache_control, "no-store");
  if (answer.status == 405) response.set(http::field::allow, "GET, HEAD");
  response.keep_alive(request.keep_alive());
  // A HEAD's answer has the length of the GET's, but not its body.
  response.content_length(answer.body.size());
  if (request.method() != http::verb::head) response.body() = std::move(answer.body);
  return response;
}

}  // namespace sluice
