#include "net/resolver.h"

#include <netdb.h>

#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace sluice::net {

Resolver::Resolver(Lookup lookup) : state_(std::make_shared<State>(std::move(lookup))) {}

Resolver::~Resolver() {
  bool stuck = false;
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
    stuck = state_->looking_up;
    state_->changed.NotifyAll();
  }
  stuck ? thread_.Detach() : thread_.Join();
}

void Resolver::Resolve(const Address& address, Loop& loop, Done done) {
  if (auto numeric = Endpoint::FromNumeric(address); numeric || address.is_unix()) {
    loop.Post([done = std::move(done), numeric = std::move(numeric)] {
      if (!numeric) return done(numeric.error());
      done(std::vector<Endpoint>{*numeric});
    });
    return;
  }
  const MutexLock lock(state_->mutex);
  state_->questions.push_back({.address = address, .loop = &loop, .done = std::move(done)});
  state_->changed.NotifyAll();
  if (std::exchange(state_->started, true)) return;
  thread_ = Thread("dns", [state = state_] { Run(*state); });
}

void Resolver::Run(State& state) {
  for (;;) {
    Question question;
    {
      const MutexLock lock(state.mutex);
      state.changed.Wait(state.mutex, [&state]() SLUICE_REQUIRES(state.mutex) {
        return state.stopped || !state.questions.empty();
      });
      if (state.stopped) return;
      question = std::move(state.questions.front());
      state.questions.pop_front();
      state.looking_up = true;
    }
    auto found = state.lookup(question.address);
    const MutexLock lock(state.mutex);  // held during Post, so that the loop still exists
    state.looking_up = false;
    if (state.stopped) return;
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
