// A client of Sluice for services: one channel, a deadline for every check, and a decision even if
// no server answers.
//
//   sluice::Client client("127.0.0.1:8081");
//   sluice::Permit permit = client.Acquire("shop", {{"endpoint", "/pay"}, {"user", user}});
//   if (!permit) return Denied(permit.decision().retry_after);
//   …  // a slot of a concurrency limit is held until `permit` is destroyed
//
// Thread-safe. One client is enough for a process.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

class Client;
class LeaseKeeper;
class PendingCalls;

// Units by name, such as {{"tokens", 212}}; "cost" is a name, too.
using Amounts = std::map<std::string, uint64_t>;

// What rules match on and count by.
using Attributes = std::map<std::string, std::string>;

struct Options {
  // The decision of the client if no server answers in time.
  enum class WithoutAnswer { kOpen, kClosed };

  // Returns the caller's token for each call, on any thread; empty: none. If it throws, a check has
  // no answer, and other calls are repeated.
  std::function<std::string()> token;
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: plain text
  std::chrono::milliseconds deadline{100};                // of one check
  WithoutAnswer without_answer = WithoutAnswer::kOpen;
  // The longest wait that a check accepts. Absent: a check does not wait, unless a leaky_bucket
  // delays it.
  std::optional<std::chrono::milliseconds> max_wait;
  std::chrono::milliseconds connect_timeout{2000};  // how long the constructor waits
  std::chrono::milliseconds lease_ttl{60'000};      // of a reservation's leases, which are renewed
  std::chrono::milliseconds settle_for{600'000};  // how long the client tries to store a settlement
  std::size_t max_settlements = 10'000;           // how many may wait; further ones are lost
  std::chrono::milliseconds drain{5000};          // how long Close waits for settlements
  // Whether this process is overloaded. If so, work that went well ends with
  // OVERLOAD, too, which lowers limits with `adapt`. Usually Above(0.9, 0.9) of load.h; absent:
  // never. An exception counts as false.
  std::function<bool()> overloaded;
  // Called when a settlement is lost, with the reason, on any thread. Absent: a line to stderr.
  std::function<void(const std::string& why)> lost_settlement;
};

struct Decision {
  bool allowed = false;
  bool answered = false;              // false: the client decided, or `error` is set
  grpc::Status failure;               // why no server answered
  std::chrono::microseconds wait{0};  // before the allowed request starts
  std::optional<std::chrono::microseconds> retry_after;  // absent: never, or unknown
  grpc::Status error;               // the request is invalid; then `allowed` is false
  v1::CheckLimitResponse response;  // empty if `answered` is false
};

// The work for which slots are held. `concurrency` limits with `adapt` learn from its outcome.
// Without a report, the outcome is IGNORE after an exception, otherwise OVERLOAD if
// Options::overloaded returns true, otherwise OK.
class Work {
 public:
  void Report(v1::HoldOutcome outcome) { outcome_ = outcome; }

  // Reports OVERLOAD for DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE, OK for OK, and
  // IGNORE for all other statuses.
  void Report(const grpc::Status& status);

  // Reports how long the work took. Without this call, the server measures how long the slot was
  // held.
  void ReportDuration(std::chrono::microseconds duration) { duration_ = duration; }

 private:
  friend class LeaseKeeper;

  v1::HoldOutcome outcome_ = v1::HOLD_OUTCOME_UNSPECIFIED;
  std::optional<std::chrono::microseconds> duration_;
  int exceptions_ = std::uncaught_exceptions();
};

// Renews a lease periodically, and releases it when destroyed. Must not outlive its client.
class Lease : public Work {
 public:
  Lease() = default;
  Lease(LeaseKeeper& keeper, const v1::Lease& lease);
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

 private:
  LeaseKeeper* keeper_ = nullptr;
  std::string id_;
};

// A decision, and the lease that came with it.
class Permit {
 public:
  Permit(Decision decision, Lease lease)
      : decision_(std::move(decision)), lease_(std::move(lease)) {}

  explicit operator bool() const { return decision_.allowed; }
  const Decision& decision() const { return decision_; }
  // To report how the work went.
  Work& work() { return lease_; }

 private:
  Decision decision_;
  Lease lease_;
};

// Units under a lease, which is renewed until the reservation is settled. The destructor settles
// the reservation. Must not outlive its client. Not thread-safe.
class Reservation : public Work {
 public:
  Reservation(Client& client, LeaseKeeper& keeper, v1::CheckLimitRequest first);
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Settle(); }

  // The decision of the last check, which Client::Reserve or the last Extend made.
  const Decision& decision() const { return decision_; }
  explicit operator bool() const { return decision_.allowed; }

  // Sets what has been used until now, in total. If no call of Use or Settle names an amount, the
  // amount is settled as taken.
  void Use(const Amounts& amounts);

  // Takes more units for the next part of the work, under a further lease. Does not count as a
  // request, and takes no slot unless "cost" is named. Returns false if the units are denied, or
  // if the reservation is settled. If the answer has a wait, sleeps for it.
  bool Extend(const Amounts& amounts);

  // Ends the reservation with what was used. The client repeats the settlement in the background
  // until it is stored. Settling again does nothing.
  void Settle(const Amounts& amounts = {});

 private:
  struct Part {
    std::string id;
    Amounts held;
    bool local;  // whether the lease was granted while the store did not answer
  };

  bool Take(const v1::CheckLimitRequest& request);

  Client* client_;
  LeaseKeeper* keeper_;  // null when settled
  v1::CheckLimitRequest first_;
  Decision decision_;
  std::vector<Part> parts_;  // in the order in which they were taken
  Amounts used_;
};

// A request that takes one unit. The caller may set its other fields, such as cost, mode, max_wait.
v1::CheckLimitRequest Request(const std::string& domain, const Attributes& attributes);

class Client {
 public:
  // `target`: "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081". Waits for a
  // connection for at most options.connect_timeout. If the connection is lost, the client tries to
  // reconnect at least every second.
  explicit Client(const std::string& target, Options options = {});
  // Closes the client, and waits until pending calls have ended: checks take at most their
  // deadline, other calls 5 s. A callback of CheckAsync must not destroy the client: gRPC cannot
  // close a channel on the thread of a callback.
  ~Client();

  // Waits until settlements are stored, for at most options.drain. Returns how many are lost in
  // all: their leases stay charged as taken. Later settlements are sent only once.
  std::size_t Close();

  // Checks a request. If the answer has a wait, sleeps for it before returning.
  Permit Acquire(v1::CheckLimitRequest request);
  Permit Acquire(const std::string& domain, const Attributes& attributes) {
    return Acquire(Request(domain, attributes));
  }

  // Takes units of all limits under a lease. Settle the reservation with what was used. If the
  // answer has a wait, sleeps for it before returning.
  Reservation Reserve(v1::CheckLimitRequest request);

  // Checks a request, but neither sleeps nor holds a lease: the caller sleeps, and calls Hold.
  Decision Check(v1::CheckLimitRequest request);
  Decision Check(const std::string& domain, const Attributes& attributes) {
    return Check(Request(domain, attributes));
  }

  // Like Check, without blocking. Calls `then` on a thread of gRPC: `then` must not block.
  void CheckAsync(v1::CheckLimitRequest request, std::function<void(Decision)> then);
  void CheckAsync(const std::string& domain, const Attributes& attributes,
                  std::function<void(Decision)> then) {
    CheckAsync(Request(domain, attributes), std::move(then));
  }

  // Holds the decision's lease, if it has one.
  Lease Hold(const Decision& decision);

 private:
  const Options options_;
  const std::unique_ptr<v1::RateLimiter::Stub> stub_;
  const std::unique_ptr<PendingCalls> calls_;
  const std::unique_ptr<LeaseKeeper> keeper_;
};

}  // namespace sluice
