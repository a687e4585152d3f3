#include "store/redis/server_status.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::redis {

void ServerStatus::SetReady(std::size_t connection, bool ready) {
  const MutexLock lock(mutex_);
  ready_[connection] = ready;
  ready_changed_.NotifyAll();
}

bool ServerStatus::WaitUntilReady(SteadyTime deadline) {
  const MutexLock lock(mutex_);
  return ready_changed_.WaitUntil(mutex_, deadline, [this]() SLUICE_REQUIRES(mutex_) {
    return std::find(ready_.begin(), ready_.end(), false) == ready_.end();
  });
}

void ServerStatus::OnServing() {
  const MutexLock lock(mutex_);
  if (std::exchange(told_, Told::kServing) == Told::kServing) return;
  spdlog::info("redis {}: connected", name_);
}

void ServerStatus::OnFailing(std::string_view what, std::string_view cause) {
  const MutexLock lock(mutex_);
  if (std::exchange(told_, Told::kFailing) == Told::kFailing) return;
  spdlog::warn("redis {}: {}: {}; {}", name_, what, cause, advice_);
}

void ServerStatus::OnError(std::string_view error, SteadyTime now) {
  const MutexLock lock(mutex_);
  if (now < next_error_log_) return;
  next_error_log_ = now + std::chrono::minutes(1);
  spdlog::error(
      "redis answers checks with an error: {}; they are decided by on_store_failure "
      "(told at most once a minute)",
      error);
}

}  // namespace sluice::redis
