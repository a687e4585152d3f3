// The HTTP door: a table of routes served by one small thread, on TCP or a unix socket.
//
// Start and Stop by one owner; handlers run on the server's thread ("http") and must not block.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace sluice {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// What GET and HEAD of one path answer. Other methods are answered by 405, other paths by 404.
struct HttpRoute {
  std::string path;
  std::function<HttpResponse()> answer;
};

class HttpServer {
 public:
  // Serves from the moment it returns; what the routes use must outlive the server.
  static Result<std::unique_ptr<HttpServer>> Start(const Address& address,
                                                   std::vector<HttpRoute> routes);

  // Closes all connections.
  ~HttpServer();

  // Where it listens, with the port really bound.
  const Address& address() const;

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace sluice
