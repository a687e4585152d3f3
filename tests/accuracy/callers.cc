#include "tests/accuracy/callers.h"

#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <google/protobuf/util/time_util.h>

#include "base/mutex.h"
#include "base/thread.h"

namespace sluice::accuracy {

namespace {

v1::CheckLimitRequest RequestOf(const Arrival& arrival, const Subject& subject,
                                const std::string& run) {
  v1::CheckLimitRequest request =
      test::CheckOf(kDomain, subject.Rule(), fmt::format("{}-{}", run, arrival.key));
  request.set_cost(arrival.cost);
  if (subject.max_wait) {
    *request.mutable_max_wait() =
        google::protobuf::util::TimeUtil::MicrosecondsToDuration(subject.max_wait->count());
  }
  return request;
}

void Record(const test::Answer& answer, const Arrival& arrival, History& history) {
  const v1::Source source = answer.response.source();
  if (!answer.status.ok() || (source != v1::SOURCE_STORE && source != v1::SOURCE_DENY_CACHE)) {
    ++history.unknown;
    return;
  }
  const auto& wait = answer.response.wait();
  history.outcomes.push_back(
      {.key = arrival.key,
       .cost = arrival.cost,
       .decided_at = answer.decided_at(),
       .wait = std::chrono::seconds(wait.seconds()) + Duration(wait.nanos() / 1000),
       .admitted = answer.allowed()});
}

void Append(const std::vector<History>& from, std::vector<History>& to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i].outcomes.insert(to[i].outcomes.end(), from[i].outcomes.begin(), from[i].outcomes.end());
    to[i].unknown += from[i].unknown;
  }
}

}  // namespace

std::vector<History> Callers::Send(const Arrivals& arrivals, const std::vector<Subject>& subjects,
                                   const std::string& run) {
  Mutex mutex;
  std::vector<History> all(subjects.size());
  std::atomic<std::size_t> next = 0;
  const auto call = [&](int server) {
    std::vector<History> mine(subjects.size());
    for (std::size_t i; (i = next++) < arrivals.size() * subjects.size();) {
      const Arrival& arrival = arrivals[i / subjects.size()];
      const std::size_t subject = i % subjects.size();
      const auto request = RequestOf(arrival, subjects[subject], run);
      std::this_thread::sleep_until(clock_->SteadyAt(arrival.due));
      Record(fleet_->Check(request, server), arrival, mine[subject]);
    }
    MutexLock lock(mutex);
    Append(mine, all);
  };
  std::vector<Thread> callers;
  for (int i = 0; i < count_; ++i) {
    callers.emplace_back("caller", [&call, server = i % fleet_->size()] { call(server); });
  }
  for (Thread& caller : callers) caller.Join();
  return all;
}

}  // namespace sluice::accuracy
