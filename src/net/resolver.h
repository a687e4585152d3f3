// Resolves host names without blocking a loop: one thread ("dns") asks the system, name by name.
//
// Thread-safe. Its destructor does not wait for a lookup that is under way: the name service may
// take half a minute.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
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
  // Blocks; the order is the one to try them in. By default the system's name service. May outlive
  // the resolver: it must own what it uses.
  using Lookup = std::function<Result<std::vector<Endpoint>>(const Address&)>;

  explicit Resolver(Lookup lookup = SystemLookup);
  ~Resolver();

  // Calls `done` on `loop`'s thread, once, unless the resolver dies before; `loop` must outlive
  // both. Numeric addresses and unix sockets ask nobody.
  void Resolve(const Address& address, Loop& loop, Done done);

  static Result<std::vector<Endpoint>> SystemLookup(const Address& address);

 private:
  struct Question {
    Address address;
    Loop* loop;
    Done done;
  };

  // Shared with the thread, which may be in a lookup when the resolver dies.
  struct State {
    explicit State(Lookup how) : lookup(std::move(how)) {}

    const Lookup lookup;
    Mutex mutex;
    CondVar changed;
    bool stopped SLUICE_GUARDED_BY(mutex) = false;
    bool looking_up SLUICE_GUARDED_BY(mutex) = false;
    std::deque<Question> questions SLUICE_GUARDED_BY(mutex);
  };

  static void Run(State& state);

  const std::shared_ptr<State> state_;
  Mutex start_mutex_;
  Thread thread_ SLUICE_GUARDED_BY(start_mutex_);  // started by the first question
  bool started_ SLUICE_GUARDED_BY(start_mutex_) = false;
};

}  // namespace sluice::net
