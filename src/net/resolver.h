// Resolves host names without blocking a loop: one thread ("dns") asks the system, name by name.
//
// Thread-safe. Its destructor waits for the lookup that is under way.
#pragma once

#include <deque>
#include <functional>
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
  // Blocks; the order is the one to try them in. By default the system's name service.
  using Lookup = std::function<Result<std::vector<Endpoint>>(const Address&)>;

  explicit Resolver(Lookup lookup = SystemLookup);
  ~Resolver();

  // Calls `done` on `loop`'s thread, once; it must outlive that. Numeric addresses and unix sockets
  // ask nobody.
  void Resolve(const Address& address, Loop& loop, Done done) SLUICE_EXCLUDES(mutex_);

  static Result<std::vector<Endpoint>> SystemLookup(const Address& address);

 private:
  struct Question {
    Address address;
    Loop* loop;
    Done done;
  };

  void Run() SLUICE_EXCLUDES(mutex_);

  const Lookup lookup_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ SLUICE_GUARDED_BY(mutex_) = false;
  bool started_ SLUICE_GUARDED_BY(mutex_) = false;
  std::deque<Question> questions_ SLUICE_GUARDED_BY(mutex_);
  Thread thread_;  // started by the first question
};

}  // namespace sluice::net
