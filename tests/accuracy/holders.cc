#include "tests/accuracy/holders.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <queue>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/mutex.h"
#include "base/thread.h"
#include "tests/accuracy/subject.h"

namespace sluice::accuracy {

namespace {

using std::chrono::milliseconds;

constexpr int kCrashesOneIn = 200;

// Counts the callers that use the resource at the same time.
class Resource {
 public:
  void Enter() {
    const std::int64_t users = ++users_;
    for (std::int64_t most = most_; users > most && !most_.compare_exchange_weak(most, users);) {
    }
  }
  void Leave() { --users_; }
  std::int64_t most_at_once() const { return most_; }

 private:
  std::atomic<std::int64_t> users_ = 0;
  std::atomic<std::int64_t> most_ = 0;
};

class Caller {
 public:
  // `door` is a stub for the fleet's `server`, for calls that Fleet does not offer.
  struct Place {
    test::Fleet* fleet;
    int server;
    v1::RateLimiter::Stub* door;
    Resource* resource;
  };

  Caller(const Place& place, const Holding& holding, std::uint32_t seed)
      : place_(place), holding_(holding), random_(seed) {}

  Usage Run(SteadyTime end) {
    Sleep(milliseconds(0), milliseconds(200));
    while (SteadyNow() < end) Call();
    return std::move(usage_);
  }

 private:
  void Call() {
    const Time sent = Clock::System().Now();
    const test::Answer answer =
        place_.fleet->Check(test::CheckOf(kDomain, kHoldingRule), place_.server);
    if (!answer.status.ok() || answer.response.source() == v1::SOURCE_FALLBACK) {
      ++usage_.unknown;
      usage_.possibly.push_back({sent, Clock::System().Now() + holding_.ttl});
    } else if (answer.denied()) {
      usage_.denials.push_back(answer.decided_at());
      Sleep(milliseconds(100), milliseconds(300));
    } else {
      Use(answer);
    }
  }

  void Use(const test::Answer& answer) {
    place_.resource->Enter();
    Sleep(milliseconds(20), milliseconds(60));
    place_.resource->Leave();
    const Time from = answer.decided_at();
    const Time expiry = from + holding_.ttl - Duration(1);
    if (random_() % kCrashesOneIn == 0) {
      usage_.certainly.push_back({from, expiry});
      usage_.possibly.push_back({from, expiry});
      return;
    }
    usage_.certainly.push_back({from, std::min(expiry, Clock::System().Now())});
    const bool released = Release(answer.response.lease().id());
    usage_.possibly.push_back({from, released ? std::min(expiry, Clock::System().Now()) : expiry});
    usage_.unreleased += !released;
  }

  bool Release(const std::string& lease) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    v1::ReleaseLeaseRequest request;
    request.set_lease_id(lease);
    v1::ReleaseLeaseResponse response;
    return place_.door->ReleaseLease(&context, request, &response).ok();
  }

  void Sleep(milliseconds least, milliseconds most) {
    std::this_thread::sleep_for(least + milliseconds(random_() % (most - least).count()));
  }

  const Place place_;
  const Holding holding_;
  std::minstd_rand random_;
  Usage usage_;
};

void Append(const Usage& from, Usage& to) {
  to.certainly.insert(to.certainly.end(), from.certainly.begin(), from.certainly.end());
  to.possibly.insert(to.possibly.end(), from.possibly.begin(), from.possibly.end());
  to.denials.insert(to.denials.end(), from.denials.begin(), from.denials.end());
  to.unknown += from.unknown;
  to.unreleased += from.unreleased;
}

// How many slots are held at a time. Calls of At must be ordered by time.
class Occupancy {
 public:
  explicit Occupancy(std::vector<Held> held) : held_(std::move(held)) {
    std::sort(held_.begin(), held_.end(),
              [](const Held& a, const Held& b) { return a.from < b.from; });
  }

  std::int64_t At(Time t) {
    for (; next_ < held_.size() && held_[next_].from <= t; ++next_) ends_.push(held_[next_].to);
    while (!ends_.empty() && ends_.top() < t) ends_.pop();
    return static_cast<std::int64_t>(ends_.size());
  }

  const std::vector<Held>& held() const { return held_; }

 private:
  std::vector<Held> held_;
  std::size_t next_ = 0;
  std::priority_queue<Time, std::vector<Time>, std::greater<>> ends_;
};

}  // namespace

std::string RuleOf(const Holding& holding) {
  return fmt::format(
      "  - name: {0}\n"
      "    match: {{endpoint: {0}}}\n"
      "    on_store_failure: error\n"
      "    limits: [{{algorithm: concurrency, limit: {1}, ttl: {2}ms}}]\n",
      kHoldingRule, holding.limit, holding.ttl.count() / 1000);
}

Usage Hold(test::Fleet& fleet, const Holding& holding) {
  Resource resource;
  Mutex mutex;
  Usage all;
  std::vector<std::unique_ptr<v1::RateLimiter::Stub>> doors;
  for (int i = 0; i < fleet.size(); ++i) {
    doors.push_back(v1::RateLimiter::NewStub(
        grpc::CreateChannel(fleet.server(i).grpc_address(), grpc::InsecureChannelCredentials())));
  }
  const SteadyTime end = SteadyNow() + holding.length;
  std::vector<Thread> threads;
  for (int i = 0; i < holding.callers; ++i) {
    const int server = i % fleet.size();
    const Caller::Place place{&fleet, server, doors[server].get(), &resource};
    threads.emplace_back("holder", [&, place, i] {
      const Usage usage = Caller(place, holding, static_cast<std::uint32_t>(i)).Run(end);
      MutexLock lock(mutex);
      Append(usage, all);
    });
  }
  for (Thread& thread : threads) thread.Join();
  all.most_at_once = resource.most_at_once();
  return all;
}

Judgement Judge(const Usage& usage, const Holding& holding) {
  Judgement judgement;
  judgement.unknown = usage.unknown;
  judgement.admitted = static_cast<std::int64_t>(usage.certainly.size());
  judgement.checks =
      judgement.admitted + static_cast<std::int64_t>(usage.denials.size()) + usage.unknown;
  judgement.densest = usage.most_at_once;
  judgement.promise = {.units = usage.most_at_once,
                       .limit = holding.limit,
                       .over = std::max<std::int64_t>(0, usage.most_at_once - holding.limit)};
  Occupancy certain(usage.certainly);
  for (const Held& held : certain.held()) {
    const std::int64_t slots = certain.At(held.from);
    judgement.promise.units = std::max(judgement.promise.units, slots);
    judgement.promise.over += slots > holding.limit;
  }
  Occupancy possible(usage.possibly);
  std::vector<Time> denials = usage.denials;
  std::sort(denials.begin(), denials.end());
  for (const Time denial : denials) judgement.missing += possible.At(denial) < holding.limit;
  judgement.ideal = judgement.admitted + judgement.missing;
  return judgement;
}

}  // namespace sluice::accuracy
