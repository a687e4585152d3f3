// A caller of one Sluice server over gRPC. Connects at the first call, and again by itself after
// the connection is lost. For many calls under way at once, see CheckLoop.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "sluice/v1/rate_limiter.pb.h"

namespace sluice {

class Client {
 public:
  explicit Client(Address address);
  ~Client();

  // Waits for the answer, at most `timeout`. A denial is an answer; errors are kUnavailable (no
  // server there, or the store failed and the rule says so), kDeadlineExceeded, and what the
  // server refused.
  Result<v1::CheckLimitResponse> Check(const v1::CheckLimitRequest& request, Duration timeout);

  // How long the lease holds from when the server was asked. Waits as Check does; kNotFound: the
  // lease is lost for good.
  Result<Duration> RenewLease(const std::string& lease_id, Duration timeout);

  // Gives the lease back, if it is still there. Waits as Check does.
  Result<void> ReleaseLease(const std::string& lease_id, Duration timeout);

  // Whether a server is connected now: tells an error of the server from its absence.
  bool connected() const;

  const Address& address() const { return address_; }

 private:
  friend class AdminClient;
  friend class CheckLoop;
  struct Connection;

  const Address address_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace sluice
