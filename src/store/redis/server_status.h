// What the connections of all io threads to one Redis server know together: whether they are ready,
// and what the log says of it: one line for each change, however many threads meet it.
//
// Thread-safe. Told of changes only, so its lock is not on the way of a check.
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
  // `name` is for the log. There are `connections`, one for each io thread.
  ServerStatus(std::string name, std::size_t connections)
      : name_(std::move(name)), ready_(connections, false) {}

  // Whether commands may be sent on a connection.
  void SetReady(std::size_t connection, bool ready) SLUICE_EXCLUDES(mutex_);

  // Waits for all connections; returns whether they were ready before `deadline`.
  bool WaitUntilReady(SteadyTime deadline) SLUICE_EXCLUDES(mutex_);

  // A connection serves, having not done so before. Logged if the log does not say so already.
  void OnServing() SLUICE_EXCLUDES(mutex_);

  // A connection is lost or cannot be made. Logged as OnServing.
  void OnFailing(std::string_view what, std::string_view cause) SLUICE_EXCLUDES(mutex_);

  // Checks are answered with an error. The same one may come with every reply, so one line a minute
  // tells it.
  void OnError(std::string_view error, SteadyTime now) SLUICE_EXCLUDES(mutex_);

 private:
  enum class Told { kNothing, kServing, kFailing };

  const std::string name_;
  Mutex mutex_;
  CondVar ready_changed_;
  std::vector<bool> ready_ SLUICE_GUARDED_BY(mutex_);
  Told told_ SLUICE_GUARDED_BY(mutex_) = Told::kNothing;
  SteadyTime next_error_log_ SLUICE_GUARDED_BY(mutex_);
};

}  // namespace sluice::redis
