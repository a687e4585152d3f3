#include "http/http_responder.h"

namespace sluice {

void HttpExchange::Answer(HttpResponse response) {
  {
    const MutexLock lock(mutex_);
    net::Loop* const loop = std::exchange(loop_, nullptr);
    if (loop == nullptr) return;
    // Posts while holding the lock: once the connection has detached, the loop may be destroyed.
    if (loop != net::Loop::Current()) {
      loop->Post([self = shared_from_this(), response = std::move(response)]() mutable {
        self->Run(std::move(response));
      });
      return;
    }
  }
  Run(std::move(response));
}

void HttpExchange::Run(HttpResponse response) {
  response.on_lost = std::exchange(on_gone_, nullptr);
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

}  // namespace sluice
