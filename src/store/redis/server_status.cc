#include "store/redis/server_status.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace sluice::redis {
namespace {

constexpr std::string_view kNoAdvice = "see docs/redis.md, When Redis fails";

std::string_view AdviceOn(std::string_view cause) {
  if (const auto kind = KindOf(cause)) return kErrorKinds[*kind].advice;
  if (cause.starts_with("TLS")) {
    return "check redis.tls: ca, server_name, and certificate if Redis requires one";
  }
  if (cause.starts_with("cannot resolve"))
    return "check the name in redis.url, and the name service";
  return "check that it runs and accepts this server's login";
}

}  // namespace

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

bool ServerStatus::AnyReady() {
  const MutexLock lock(mutex_);
  return std::find(ready_.begin(), ready_.end(), true) != ready_.end();
}

void ServerStatus::OnServing() {
  const MutexLock lock(mutex_);
  if (std::exchange(last_logged_, State::kServing) == State::kServing) return;
  spdlog::info("redis {}: connected", name_);
}

void ServerStatus::OnFailing(std::string_view what, std::string_view cause, SteadyTime now) {
  const MutexLock lock(mutex_);
  const bool is_news = KindOf(cause) && IsNews(cause, now);
  if (std::exchange(last_logged_, State::kFailing) == State::kFailing && !is_news) return;
  spdlog::warn("redis {}: {}: {}; {}; {}", name_, what, LogText(cause), AdviceOn(cause),
               consequence_);
}

void ServerStatus::OnError(std::string_view error, SteadyTime now, const Refused& refused) {
  const MutexLock lock(mutex_);
  if (!IsNews(error, now)) return;
  const auto kind = KindOf(error);
  spdlog::error("redis {}: {}: {}; {}; {} (logged once while it lasts)", name_, refused.what,
                LogText(error), kind ? kErrorKinds[*kind].advice : kNoAdvice, refused.consequence);
}

void ServerStatus::OnNotRun(std::string_view error, SteadyTime now) {
  const MutexLock lock(mutex_);
  if (!IsNews(error, now)) return;
  const auto kind = KindOf(error);
  const std::string_view remedy = kind ? kErrorKinds[*kind].remedy : std::string_view();
  spdlog::info("redis {}: {}; {} (logged once while it lasts)", name_, LogText(error),
               remedy.empty() ? "the checks are sent again" : remedy);
}

bool ServerStatus::IsNews(std::string_view error, SteadyTime now) {
  SteadyTime& known_until = known_until_[KindOf(error).value_or(kErrorKinds.size())];
  return std::exchange(known_until, now + std::chrono::minutes(1)) <= now;
}

}  // namespace sluice::redis
