// Sends the response to one request. The handler keeps the responder until the response is ready.
//
// Thread-safe. May outlive the connection and the server; the response is then dropped.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "http/http_message.h"
#include "net/loop.h"

namespace sluice {

// The state of a request, shared by its connection and its responder.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
 public:
  using Deliver = std::function<void(HttpResponse)>;

  // Calls `deliver` at most once, on `loop`'s thread. If Answer runs on that thread, it calls
  // `deliver` directly.
  HttpExchange(net::Loop& loop, Deliver deliver) : loop_(&loop), deliver_(std::move(deliver)) {}

  // Delivers the response. Only the first call has an effect.
  void Answer(HttpResponse response) SLUICE_EXCLUDES(mutex_);

  // Prevents later calls of `deliver` and uses of the loop. If no response was delivered, calls
  // `on_gone`. Loop thread only.
  void Detach() SLUICE_EXCLUDES(mutex_);

  // Implements HttpResponder::OnGone.
  void OnGone(std::function<void()> on_gone) { on_gone_ = std::move(on_gone); }

 private:
  void Run(HttpResponse response);

  Mutex mutex_;
  net::Loop* loop_ SLUICE_GUARDED_BY(mutex_);  // null: answered or detached
  Deliver deliver_;                            // loop thread only
  std::function<void()> on_gone_;              // loop thread only
};

class HttpResponder {
 public:
  explicit HttpResponder(const std::shared_ptr<HttpExchange>& exchange)
      : exchange_(exchange.get(), [exchange](HttpExchange* it) { it->Answer(Busy()); }) {}

  // Sends the response. Only the first call has an effect. If all copies are destroyed without a
  // call, the response is 503.
  void operator()(HttpResponse response) const { exchange_->Answer(std::move(response)); }

  // Calls `on_gone` once if the client disconnects, or the server ends, before the response is
  // sent. REQUIRES: called before the response, on the loop's thread.
  void OnGone(std::function<void()> on_gone) const { exchange_->OnGone(std::move(on_gone)); }

 private:
  std::shared_ptr<HttpExchange> exchange_;  // its deleter answers
};

}  // namespace sluice
