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
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <grpcpp/security/credentials.h>
#include <grpcpp/support/status.h>

#include "sluice/v1/rate_limiter.grpc.pb.h"

namespace sluice {

class LeaseKeeper;
class PendingCalls;

// What rules match on and count by.
using Attributes = std::map<std::string, std::string>;

struct Options {
  // The decision of the client if no server answers in time.
  enum class WithoutAnswer { kOpen, kClosed };

  std::function<std::string()> token;  // of the caller, read for each call; empty: none
  std::shared_ptr<grpc::ChannelCredentials> credentials;  // null: plain text
  std::chrono::milliseconds deadline{100};                // of one check
  WithoutAnswer without_answer = WithoutAnswer::kOpen;
  // The longest wait that a check accepts. Absent: none, except where a leaky_bucket delays.
  std::optional<std::chrono::milliseconds> max_wait;
  std::chrono::milliseconds connect_timeout{2000};  // how long the constructor waits
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

// Renews a lease periodically, and releases it when destroyed. Must not outlive its client.
class Lease {
 public:
  Lease() = default;
  Lease(LeaseKeeper& keeper, std::string id, std::chrono::microseconds ttl);
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

 private:
  Decision decision_;
  Lease lease_;
};

// A request that takes one unit. Its other fields are set by the caller: cost, mode, max_wait.
v1::CheckLimitRequest Request(const std::string& domain, const Attributes& attributes);

class Client {
 public:
  // `target`: "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081". Waits for a
  // connection for at most options.connect_timeout; reconnects within a second.
  explicit Client(const std::string& target, Options options = {});
  // Waits until pending calls have ended: checks for at most their deadline, leases for 5 s. A
  // callback of CheckAsync must not destroy the client: gRPC cannot close a channel on such a
  // thread.
  ~Client();

  // Checks a request. If the answer has a wait, sleeps for it before returning.
  Permit Acquire(v1::CheckLimitRequest request);
  Permit Acquire(const std::string& domain, const Attributes& attributes) {
    return Acquire(Request(domain, attributes));
  }

  // Checks a request without sleeping or holding a lease: the caller waits, and calls Hold.
  Decision Check(v1::CheckLimitRequest request);
  Decision Check(const std::string& domain, const Attributes& attributes) {
    return Check(Request(domain, attributes));
  }

  // Like Check, without blocking. Calls `then` on a thread of gRPC, which it must not block.
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
