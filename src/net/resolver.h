// Resolves host names without blocking a loop: one thread ("dns") queries the system's name
// service, one name at a time.
//
// Thread-safe. The destructor does not wait for a running lookup, which may take half a minute.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/thread.h"
#include "net/loop.h"
#include "net/socket.h"

namespace sluice::net {

class Resolver {
 public:
  using Done = std::function<void(Result<std::vector<Endpoint>>)>;
  // Returns the addresses in the order to try them. May block. May outlive the resolver, so it must
  // own everything it uses.
  using Lookup = std::function<Result<std::vector<Endpoint>>(const Address&)>;

  explicit Resolver(Lookup lookup = SystemLookup);
  ~Resolver();

  // Calls `done` once on `loop`'s thread, unless the resolver is destroyed first. `loop` must
  // outlive the resolver. Numeric addresses and unix sockets need no lookup.
  void Resolve(const Address& address, Loop& loop, Done done);

  static Result<std::vector<Endpoint>> SystemLookup(const Address& address);

 private:
  struct Question {
    Address address;
    Loop* loop;
    Done done;
  };

  // Shared with the thread, which may be in a lookup when the resolver is destroyed.
  struct State {
    explicit State(Lookup how) : lookup(std::move(how)) {}

    const Lookup lookup;
    Mutex mutex;
    CondVar changed;
    bool stopped SLUICE_GUARDED_BY(mutex) = false;
    bool started SLUICE_GUARDED_BY(mutex) = false;
    bool looking_up SLUICE_GUARDED_BY(mutex) = false;
    std::deque<Question> questions SLUICE_GUARDED_BY(mutex);
  };

  static void Run(State& state);

  const std::shared_ptr<State> state_;
  Thread thread_;  // started by the first lookup
};

}  // namespace sluice::net
