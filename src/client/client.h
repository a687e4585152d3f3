// A blocking gRPC client of one Sluice server. Each call has its own connection, so calls succeed
// again after a restart of the server.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include <google/protobuf/message.h>

#include "base/clock.h"
#include "base/result.h"
#include "client/target.h"
#include "net/io_threads.h"
#include "sluice/v1/rate_limiter.pb.h"

namespace sluice {

class Client {
 public:
  // Does not connect yet. If a TLS file is invalid, the error names it.
  static Result<std::unique_ptr<Client>> Create(Target target);
  ~Client();

  // Waits for the response for up to `timeout`. A denial is not an error. Errors: kUnavailable (no
  // server, or the store failed and the rule has on_store_failure: error), kDeadlineExceeded, and
  // the errors of the API.
  Result<v1::CheckLimitResponse> Check(const v1::CheckLimitRequest& request, Duration timeout);

  // Renews a lease. Returns its new ttl, counted from the time of this call. Waits as Check does.
  // Fails with kNotFound if the lease is lost.
  Result<Duration> RenewLease(const std::string& lease_id, Duration timeout);

  // Releases the lease if it still exists. Waits as Check does.
  Result<void> ReleaseLease(const v1::ReleaseLeaseRequest& request, Duration timeout);

  // Settles the lease with the amounts that were used. Waits as Check does.
  Result<v1::SettleLeaseResponse> SettleLease(const v1::SettleLeaseRequest& request,
                                              Duration timeout);

  // Whether the server accepts calls, according to its Health service. Waits as Check does. Fails
  // with kUnavailable if there is no server.
  Result<bool> IsServing(Duration timeout);

  // Calls any other unary method, such as "/sluice.v1.Admin/Explain". `path` must be a literal.
  template <typename Response>
  Result<Response> Call(const char* path, const google::protobuf::Message& request,
                        Duration timeout) {
    Response response;
    if (auto called = CallInto(response, path, request, timeout); !called) return called.error();
    return response;
  }

  // Whether the last call reached a server. If not, the error is not the server's.
  bool connected() const { return connected_; }

  const Address& address() const { return target_.address; }

 private:
  Client(Target target, std::unique_ptr<net::TlsClientContext> tls);

  Result<void> CallInto(google::protobuf::Message& response, const char* path,
                        const google::protobuf::Message& request, Duration timeout);

  const Target target_;
  const std::unique_ptr<net::TlsClientContext> tls_;  // null: plaintext
  std::atomic<bool> connected_ = false;
  net::IoThreads io_{1};
};

}  // namespace sluice
