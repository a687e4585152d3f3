// Renews each lease of a client when a third of its ttl has passed, and repeats releases and
// settlements that fail. A separate thread does this.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pending_calls.h"
#include "sluice/client.h"

namespace sluice {

// Rounded up, so that waiting this long is always enough.
std::chrono::microseconds ToChrono(const google::protobuf::Duration& duration);

// Whether the error is the caller's, so that repeating the call cannot help.
bool IsMistake(grpc::StatusCode code);

class LeaseKeeper {
 public:
  // `calls` and `options` must outlive this object. The owner must call Stop, wait for `calls`, and
  // only then destroy this object, because calls use it until they end. If the process ends before
  // that, pending releases are lost.
  LeaseKeeper(PendingCalls& calls, const Options& options);
  ~LeaseKeeper();

  // Renews the lease until Release or Settle is called.
  void Add(const std::string& id, const google::protobuf::Duration& ttl);

  // Stops renewing the lease and asks the server to release it, for at most 5 s. Returns at once.
  // If the request is lost, the lease ends when its ttl has passed.
  void Release(const std::string& id, const Work& work);

  // Stops renewing the lease, and repeats the settlement until it is stored. Returns at once.
  // `local`: the lease was granted while the store did not answer.
  void Settle(const std::string& id, const Amounts& used, bool local, const Work& work);

  // Waits, for at most options.drain, until settlements are stored. Returns how many are lost in
  // all.
  std::size_t Close();

  // Waits for releases. Then ends the thread: nothing is renewed, and no attempt begins anymore.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Renewal {
    Clock::time_point due;
    std::chrono::microseconds period;
  };

  template <class Request>
  struct Repeated {
    Request request;
    Clock::time_point end;            // no attempt after this
    std::chrono::milliseconds pause;  // before the next attempt
  };

  struct Settlement : Repeated<v1::SettleLeaseRequest> {
    bool local;
  };

  bool IsOverloaded();
  template <class Request>
  void SetHold(const Work& work, Request& request);
  void Run();
  void RenewDue(Clock::time_point now);
  std::vector<std::function<void()>> TakeDue(Clock::time_point now);
  Clock::time_point NextDue(Clock::time_point now) const;
  // Plans to attempt a failed call again. Returns false if it must not be attempted again.
  // REQUIRES: the caller holds mutex_.
  template <class Call>
  bool Repeat(Call& call, const grpc::Status& status, void (LeaseKeeper::*attempt)(Call));
  void AttemptRelease(Repeated<v1::ReleaseLeaseRequest> release);
  void Attempt(Settlement settlement);
  void Attempted(Settlement settlement, const grpc::Status& status, v1::Outcome outcome);
  void ReportLost(const std::string& why);

  PendingCalls& calls_;
  const Options& options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::once_flag warned_;                    // that Options::overloaded threw
  std::map<std::string, Renewal> renewals_;  // by lease; guarded by mutex_
  // Releases and settlements that wait for their next attempt, by its time; guarded by mutex_
  std::multimap<Clock::time_point, std::function<void()>> attempts_;
  std::size_t releasing_ = 0;  // guarded by mutex_
  std::size_t settling_ = 0;   // how many wait or are being sent; guarded by mutex_
  std::size_t lost_ = 0;       // guarded by mutex_
  bool closed_ = false;        // guarded by mutex_
  bool stopping_ = false;      // guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice
