// The HTTP server of `sluice console`. It serves a page on 127.0.0.1 that shows a user of this
// machine what the servers do.
//
// Any page in the browser, and any user of this machine, can connect. So the page's API requires a
// random token, which only the URL's fragment contains. Requests are refused if they come from
// other sites, or if their host name is not 127.0.0.1 or localhost (DNS rebinding). The page itself
// is public.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/secret.h"
#include "base/worker.h"
#include "console/fleet_watch.h"
#include "http/http_server.h"
#include "net/io_threads.h"
#include "sluice/v1/admin.pb.h"

namespace sluice {

class ConsoleServer {
 public:
  struct Options {
    std::uint16_t port = 0;                       // 0: any free port
    Duration timeout = std::chrono::seconds(10);  // of calls to servers
    // Formats an answer to Explain as text for the operator.
    std::function<std::string(const v1::ExplainRequest&, const v1::ExplainResponse&)> explain_text;
  };

  // `watch` must outlive the console.
  static Result<std::unique_ptr<ConsoleServer>> Start(const FleetWatch& watch, Options options);
  ~ConsoleServer();

  // The page's URL, with the token.
  std::string url() const;

 private:
  ConsoleServer(const FleetWatch& watch, Options options);

  std::vector<HttpRoute> Routes();
  // Refuses requests whose host name is not allowed and, if `needs_token`, requests without the
  // token.
  HttpHandler Guarded(HttpHandler handler, bool needs_token) const;

  // A handler that calls the admin method at `path` on the worker's thread. The query of the HTTP
  // request has the server's index, and its body is the method's request in JSON. `render` makes
  // the JSON of the answer; without `render`, the answer is the method's response in JSON.
  template <typename Request, typename Response>
  HttpHandler CallOf(const char* path,
                     std::function<std::string(const Request&, const Response&)> render = {});
  Result<Target> ServerOf(const HttpRequest& request) const;

  const FleetWatch& watch_;
  const Options options_;
  const std::string token_;
  net::IoThreads io_{1};
  Worker worker_;
  std::unique_ptr<HttpServer> http_;
  std::atomic<std::uint16_t> port_{0};  // the port of http_; 0: not known yet
};

}  // namespace sluice
