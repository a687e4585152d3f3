// A client of the admin API that uses the connection and the token of a Client. Returns the API's
// errors, or kUnavailable or kDeadlineExceeded if there is no response.
//
// Thread-safe.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/result.h"
#include "client/client.h"
#include "sluice/v1/admin.pb.h"

namespace sluice {

class AdminClient {
 public:
  // `client` must outlive this object.
  explicit AdminClient(Client& client);
  ~AdminClient();

  // Each waits for the response for up to `timeout`.
  Result<v1::ExplainResponse> Explain(const v1::ExplainRequest& request, Duration timeout);
  Result<v1::ResetLimitResponse> ResetLimit(const v1::ResetLimitRequest& request, Duration timeout);
  Result<v1::ListRulesResponse> ListRules(const v1::ListRulesRequest& request, Duration timeout);
  Result<v1::ReloadRulesResponse> ReloadRules(const v1::ReloadRulesRequest& request,
                                              Duration timeout);

 private:
  struct Stub;

  const std::unique_ptr<Stub> stub_;
};

}  // namespace sluice
