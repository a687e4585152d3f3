// A caller of one Sluice server over gRPC. Connects at the first call, and again by itself after
// the connection is lost.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/address.h"
#include "base/clock.h"
#include "base/result.h"
#include "sluice/v1/rate_limiter.pb.h"

namespace sluice {

// How a Client presents itself, and how it trusts the server.
struct ClientCredentials {
  bool tls = false;  // the rest of TLS matters only with it; PEM texts
  std::string ca;    // who may sign the server's certificate; empty: the system's authorities
  std::string certificate;  // our own chain, and its key; empty: none
  std::string key;
  std::string token;  // sent as a bearer token; empty: none
};

class Client {
 public:
  explicit Client(Address address) : Client(std::move(address), {}) {}
  Client(Address address, const ClientCredentials& credentials);
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
  struct Connection;

  const Address address_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace sluice
