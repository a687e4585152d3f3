// HTTP requests that call a unary method of rpc: its handlers serve them as they serve the callers
// of gRPC.
//
// Thread-safe; each call lives on its loop's thread. Must be destroyed while the loops run, when
// nobody can call a handler any more (the store and the worker have stopped).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "http/http_message.h"
#include "http/http_responder.h"
#include "net/io_threads.h"
#include "rpc/method.h"
#include "rpc/status.h"

namespace sluice {

class UnaryCalls {
 public:
  // Makes the HTTP response out of a status, and of the method's response if that is OK.
  using Render = std::function<HttpResponse(const rpc::Status&, std::string_view)>;

  // REQUIRES: method.unary. `threads` must outlive this.
  UnaryCalls(net::IoThreads& threads, rpc::Method method);
  ~UnaryCalls();

  const rpc::Method& method() const { return method_; }

  // Calls the method with `message` on behalf of `request`, and answers `responder`. If the client
  // leaves before, the handler is told. On an io thread.
  void Start(const HttpRequest& request, std::string message, Render render,
             HttpResponder responder);

 private:
  class OneCall;
  using CallsOfLoop = std::unordered_map<OneCall*, std::unique_ptr<OneCall>>;

  net::IoThreads& threads_;
  const rpc::Method method_;
  std::vector<CallsOfLoop> calls_;  // by loop
};

}  // namespace sluice
