// Maps the path of a request to its handler.
//
// Thread-safe. Handlers must be thread-safe, too.
#pragma once

#include <functional>
#include <string>
#include <vector>

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
};

// A handler that responds at once with the result of `answer`.
HttpHandler AnsweredBy(std::function<HttpResponse()> answer);

class Router {
 public:
  explicit Router(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

  // Calls the handler, or responds with 404 or 405.
  void Handle(const HttpRequest& request, HttpResponder responder) const;

 private:
  const std::vector<HttpRoute> routes_;
};

}  // namespace sluice
