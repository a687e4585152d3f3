// The state of one Redis node, shared by the connections of all io threads: which of the
// connections are ready. Logs the node's state, with one line per change, not one per thread.
//
// Thread-safe. Only changes of state and errors take its lock, so checks do not wait for it.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "store/redis/redis_error.h"

namespace sluice::redis {

class ServerStatus {
 public:
  // What is logged when a node that decides checks is lost.
  static constexpr std::string_view kOfChecks =
      "on_store_failure of each rule decides until it is back";

  // The log calls the node `name` and, if the node is lost, states `consequence`. `connections` is
  // the number of connections, one for each io thread.
  ServerStatus(std::string name, std::size_t connections, std::string_view consequence = kOfChecks)
      : name_(std::move(name)), consequence_(consequence), ready_(connections, false) {}

  const std::string& name() const { return name_; }

  // Sets whether commands may be sent on a connection.
  void SetReady(std::size_t connection, bool ready) SLUICE_EXCLUDES(mutex_);

  // Waits for all connections; returns whether they were ready before `deadline`.
  bool WaitUntilReady(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

  // Whether commands may be sent on any of the connections.
  bool AnyReady() SLUICE_EXCLUDES(mutex_);

  // A connection works. Logged if the last logged state is not this one.
  void OnServing() SLUICE_EXCLUDES(mutex_);

  // A connection is lost or cannot be made. Logged if the last logged state is not this one, or if
  // the cause is an error of Redis whose kind is news: see OnError.
  void OnFailing(std::string_view what, std::string_view cause, SteadyTime now)
      SLUICE_EXCLUDES(mutex_);

  // For the log line of an error: what Redis does, and what follows from it.
  struct Refused {
    std::string_view what = "answers checks with an error";
    std::string_view consequence = "the checks are decided by on_store_failure";
  };
  // Redis answers with an error. Each kind is logged once, even if it occurs often. It is logged
  // again if it occurs after a pause of a minute.
  void OnError(std::string_view error, SteadyTime now, const Refused& refused)
      SLUICE_EXCLUDES(mutex_);

  // The same for errors after which the checks are sent again, since nothing has run.
  void OnNotRun(std::string_view error, SteadyTime now) SLUICE_EXCLUDES(mutex_);

 private:
  enum class State { kNothing, kServing, kFailing };

  // Whether the error is news: its kind has not occurred for a minute. Errors without a kind count
  // as one kind.
  bool IsNews(std::string_view error, SteadyTime now) SLUICE_REQUIRES(mutex_);

  const std::string name_;
  const std::string_view consequence_;
  Mutex mutex_;
  CondVar ready_changed_;
  std::vector<bool> ready_ SLUICE_GUARDED_BY(mutex_);
  State last_logged_ SLUICE_GUARDED_BY(mutex_) = State::kNothing;
  // Until when errors of a kind are not logged again. The last element is for errors without a
  // kind.
  std::array<SteadyTime, kErrorKinds.size() + 1> known_until_ SLUICE_GUARDED_BY(mutex_){};
};

}  // namespace sluice::redis
