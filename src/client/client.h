// A gRPC client of one Sluice server. Connects at the first call and reconnects automatically.
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

// The client's credentials, and the authorities that it trusts. PEM texts.
struct ClientCredentials {
  bool tls = false;         // the next four fields are used only if true
  std::string server_name;  // the name in the server's certificate; empty: the address' host
  std::string ca;           // authorities for the server's certificate; empty: the system's
  std::string certificate;  // the client's certificate chain; empty: none
  std::string key;
  std::string token;  // sent as a bearer token; empty: none
};

class Client {
 public:
  explicit Client(Address address) : Client(std::move(address), {}) {}
  Client(Address address, const ClientCredentials& credentials);
  ~Client();

  // Waits for the response for up to `timeout`. A denial is not an error. Errors: kUnavailable (no
  // server, or the store failed and the rule returns an error then), kDeadlineExceeded, and the
  // errors of the API.
  Result<v1::CheckLimitResponse> Check(const v1::CheckLimitRequest& request, Duration timeout);

  // Renews a lease. Returns its new ttl, counted from the time of this call. Waits as Check does.
  // Fails with kNotFound if the lease is lost.
  Result<Duration> RenewLease(const std::string& lease_id, Duration timeout);

  // Releases the lease if it still exists. Waits as Check does.
  Result<void> ReleaseLease(const std::string& lease_id, Duration timeout);

  // Whether the server accepts calls, according to its Health service. Errors as in Check.
  Result<bool> IsServing(Duration timeout);

  // Whether a server is connected now. Distinguishes a server's error from a missing server.
  bool connected() const;

  const Address& address() const { return address_; }

 private:
  friend class AdminClient;
  struct Connection;

  const Address address_;
  const std::unique_ptr<Connection> connection_;
};

}  // namespace sluice
