#include "http/http_responder.h"

#include <utility>

#include "net/loop.h"

namespace sluice {

void HttpExchange::Answer(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response) {
  {
    const MutexLock lock(exchange->mutex_);
    net::Loop* const loop = std::exchange(exchange->loop_, nullptr);
    if (loop == nullptr) return;
    // Posted under the lock: once the connection has detached, there may be no loop.
    if (loop != net::Loop::Current()) {
      loop->Post([exchange, response = std::move(response)]() mutable {
        exchange->Run(std::move(response));
      });
      return;
    }
  }
  exchange->Run(std::move(response));
}

void HttpExchange::Run(HttpResponse response) {
  on_gone_ = nullptr;
  const Deliver deliver = std::exchange(deliver_, nullptr);
  if (deliver) deliver(std::move(response));
}

void HttpExchange::Detach() {
  deliver_ = nullptr;
  {
    const MutexLock lock(mutex_);
    loop_ = nullptr;
  }
  if (const auto on_gone = std::exchange(on_gone_, nullptr)) on_gone();
}

struct HttpResponder::LastCopy {
  explicit LastCopy(std::shared_ptr<HttpExchange> of) : exchange(std::move(of)) {}
  ~LastCopy() { HttpExchange::Answer(exchange, {.status = 503, .body = "the server is busy\n"}); }
  LastCopy(const LastCopy&) = delete;
  LastCopy& operator=(const LastCopy&) = delete;

  const std::shared_ptr<HttpExchange> exchange;
};

HttpResponder::HttpResponder(const std::shared_ptr<HttpExchange>& exchange)
    : last_copy_(std::make_shared<const LastCopy>(exchange)) {}

void HttpResponder::OnGone(std::function<void()> on_gone) const {
  last_copy_->exchange->OnGone(std::move(on_gone));
}

void HttpResponder::operator()(HttpResponse response) const {
  HttpExchange::Answer(last_copy_->exchange, std::move(response));
}

}  // namespace sluice
