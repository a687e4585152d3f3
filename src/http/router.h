// Maps the path of a request to its handler.
//
// Thread-safe. Handlers must be thread-safe, too.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "http/http_message.h"
#include "http/http_responder.h"

namespace sluice {

// Called on the connection's io thread, so it must not block. Long tasks go to a worker, together
// with the responder. The request is valid until the handler returns.
using HttpHandler = std::function<void(const HttpRequest&, HttpResponder)>;

struct HttpRoute {
  std::string path;
  HttpHandler handler;
  std::vector<std::string> methods = {"GET", "HEAD"};  // others get 405
  // A browser lets every page send requests to every server that the browser can reach. If true,
  // requests from pages of other sites get 403: requests with a foreign Origin, or with
  // `Sec-Fetch-Site: cross-site`.
  bool own_site_only = false;
  bool is_probe = false;  // answered even if the server has no place left
};

// A handler that responds at once with the result of `answer`.
HttpHandler AnsweredBy(std::function<HttpResponse()> answer);

class Router {
 public:
  explicit Router(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

  // Calls the handler, or responds with 403, 404, 405 or 503.
  void Handle(const HttpRequest& request, HttpResponder responder) const;

 private:
  // Responds with 403, and logs at most once a second: if the cause is a proxy that forwards Origin
  // or Sec-Fetch-Site of browsers, the proxy's configuration must be changed.
  void RefuseSite(const HttpResponder& responder) const;

  const std::vector<HttpRoute> routes_;
  mutable std::atomic<SteadyTime> next_log_{};
};

}  // namespace sluice
