#include "http/http_responder.h"

#include <utility>

#include "net/loop.h"

namespace sluice {

void HttpExchange::Answer(const std::shared_ptr<HttpExchange>& exchange, HttpResponse response) {
  {
    const MutexLock lock(exchange->mutex_);
    net::Loop* const loop = std::exchange(exchange->loop_, nullptr);
    if (loop == nullptr) return;
    // Posted under the lock: once the connection has detached, the loop may be destroyed.
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

struct HttpResponder::AnswerGuard {
  explicit AnswerGuard(std::shared_ptr<HttpExchange> of) : exchange(std::move(of)) {}
  ~AnswerGuard() { HttpExchange::Answer(exchange, Busy()); }
  AnswerGuard(const AnswerGuard&) = delete;
  AnswerGuard& operator=(const AnswerGuard&) = delete;

  const std::shared_ptr<HttpExchange> exchange;
};

HttpResponder::HttpResponder(const std::shared_ptr<HttpExchange>& exchange)
    : answer_guard_(std::make_shared<const AnswerGuard>(exchange)) {}

void HttpResponder::OnGone(std::function<void()> on_gone) const {
  answer_guard_->exchange->OnGone(std::move(on_gone));
}

void HttpResponder::operator()(HttpResponse response) const {
  HttpExchange::Answer(answer_guard_->exchange, std::move(response));
}

}  // namespace sluice
