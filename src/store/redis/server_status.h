// The state of one Redis server, shared by the connections of all io threads: which of them are
// ready, and what the log says of the server: one line for each change, not one for each thread.
//
// Thread-safe. Only changes of state and errors take its lock, so no check waits for it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace sluice::redis {

class ServerStatus {
 public:
  // What the log adds when a server that decides checks is lost.
  static constexpr std::string_view kOfChecks =
      "rules decide by on_store_failure until it is back, see that it runs and lets this server "
      "log "
      "in";

  // `name` and `advice` are for the log. There are `connections`, one for each io thread.
  ServerStatus(std::string name, std::size_t connections, std::string_view advice = kOfChecks)
      : name_(std::move(name)), advice_(advice), ready_(connections, false) {}

  const std::string& name() const { return name_; }

  // Whether commands may be sent on a connection.
  void SetReady(std::size_t connection, bool ready) SLUICE_EXCLUDES(mutex_);

  // Waits for all connections; returns whether they were ready before `deadline`.
  bool WaitUntilReady(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

  // A connection begins to serve. Logged, unless the last line said so already.
  void OnServing() SLUICE_EXCLUDES(mutex_);

  // A connection is lost or cannot be made. Logged, unless the last line said so already.
  void OnFailing(std::string_view what, std::string_view cause) SLUICE_EXCLUDES(mutex_);

  // Redis answers checks with an error. Logged at most once a minute, since every reply may bring
  // one.
  void OnError(std::string_view error, SteadyTime now) SLUICE_EXCLUDES(mutex_);

 private:
  enum class Told { kNothing, kServing, kFailing };

  const std::string name_;
  const std::string_view advice_;
  Mutex mutex_;
  CondVar ready_changed_;
  std::vector<bool> ready_ SLUICE_GUARDED_BY(mutex_);
  Told told_ SLUICE_GUARDED_BY(mutex_) = Told::kNothing;
  SteadyTime next_error_log_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::redis
