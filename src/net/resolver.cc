#include "net/resolver.h"

#include <netdb.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sluice::net {

Resolver::Resolver(Lookup lookup) : lookup_(std::move(lookup)) {}

Resolver::~Resolver() {
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void Resolver::Resolve(const Address& address, Loop& loop, Done done) {
  if (auto numeric = Endpoint::FromNumeric(address)) {
    loop.Post(
        [done = std::move(done), endpoint = *numeric] { done(std::vector<Endpoint>{endpoint}); });
    return;
  }
  const MutexLock lock(mutex_);
  questions_.push_back({.address = address, .loop = &loop, .done = std::move(done)});
  changed_.NotifyAll();
  if (!std::exchange(started_, true)) thread_ = Thread("dns", [this] { Run(); });
}

void Resolver::Run() {
  for (;;) {
    Question question;
    {
      const MutexLock lock(mutex_);
      changed_.Wait(mutex_,
                    [this]() SLUICE_REQUIRES(mutex_) { return stopped_ || !questions_.empty(); });
      if (stopped_) return;
      question = std::move(questions_.front());
      questions_.pop_front();
    }
    auto found = lookup_(question.address);
    question.loop->Post(
        [done = std::move(question.done), found = std::move(found)] { done(found); });
  }
}

Result<std::vector<Endpoint>> Resolver::SystemLookup(const Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("cannot resolve {}: {}", address.host, gai_strerror(error))};
  }
  std::vector<Endpoint> endpoints;
  for (const addrinfo* it = list; it != nullptr; it = it->ai_next) {
    Endpoint& endpoint = endpoints.emplace_back();
    std::memcpy(&endpoint.storage, it->ai_addr, it->ai_addrlen);
    endpoint.size = it->ai_addrlen;
  }
  freeaddrinfo(list);
  return endpoints;
}

}  // namespace sluice::net
