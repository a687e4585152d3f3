// From a request to the handler of its path.
//
// Thread-safe: immutable, and so must handlers be.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "http/http_message.h"
#include "http/http_responder.h"

namespace sluice {

// Called on the io thread of the connection, so it must not block: what takes long goes to a worker
// with the responder. The request is valid until the handler returns.
using HttpHandler = std::function<void(const HttpRequest&, HttpResponder)>;

struct HttpRoute {
  std::string path;
  HttpHandler handler;
  std::vector<std::string> methods = {"GET", "HEAD"};  // others are answered by 405
};

// A handler that answers at once.
HttpHandler AnsweredBy(std::function<HttpResponse()> answer);

class Router {
 public:
  explicit Router(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

  // Answers 404 and 405 itself.
  void Handle(const HttpRequest& request, HttpResponder responder) const;

 private:
  const std::vector<HttpRoute> routes_;
};

}  // namespace sluice
