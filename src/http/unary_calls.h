// Lets HTTP requests call a unary RPC method through the handlers that also serve gRPC callers.
//
// Each call runs on its loop's thread. Must be destroyed while the loops run, and after the stores
// and workers that may call a handler have stopped.
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
  // Sends the HTTP response for a finished call. If the call's status is OK, `response` is the
  // serialized response, valid until Render returns.
  using Render =
      std::function<void(const rpc::Status&, std::string_view response, const HttpResponder&)>;

  // `threads` must outlive this object. REQUIRES: method.unary is set.
  UnaryCalls(net::IoThreads& threads, rpc::Method method);
  ~UnaryCalls();

  const rpc::Method& method() const { return method_; }

  // Calls the method with the serialized `message`. When the call has finished, `render` responds
  // through `responder`. If the client disconnects before that, cancels the call. REQUIRES: called
  // on an io thread.
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
