// The right to answer one request. A handler keeps it for as long as the answer takes.
//
// Thread-safe. May outlive the connection and the server: the answer is dropped then.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "http/http_message.h"

namespace sluice::net {
class Loop;
}

namespace sluice {

// What a connection and a responder share about one request.
class HttpExchange {
 public:
  using Deliver = std::function<void(HttpResponse)>;

  // Calls `deliver` once at most, on `loop`'s thread: within Answer if that is the present one.
  HttpExchange(net::Loop& loop, Deliver deliver) : loop_(&loop), deliver_(std::move(deliver)) {}

  // Only the first one counts.
  static void Answer(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response);

  // Nothing is delivered any more, and the loop is left alone. On the loop's thread.
  void Detach() SLUICE_EXCLUDES(mutex_);

  // As HttpResponder::OnGone.
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
  explicit HttpResponder(const std::shared_ptr<HttpExchange>& exchange);

  // Answers. Only the first call counts. If all copies die without one, the answer is 503.
  void operator()(HttpResponse response) const;

  // Calls `on_gone` once if the client leaves before it is answered. On the loop's thread, within
  // the handler.
  void OnGone(std::function<void()> on_gone) const;

 private:
  struct LastCopy;
  std::shared_ptr<const LastCopy> last_copy_;
};

}  // namespace sluice
