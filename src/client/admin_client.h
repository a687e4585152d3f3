// A caller of a server's operators' API, over the connection of a Client. Errors are those of the
// API, and as with Client kUnavailable and kDeadlineExceeded if there is no answer.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "client/client.h"
#include "sluice/v1/admin.pb.h"

namespace sluice {

class AdminClient {
 public:
  // `client` must outlive this. `token` goes with every call; empty: none.
  AdminClient(Client& client, std::string token);
  ~AdminClient();

  // Each waits for the answer, at most `timeout`.
  Result<v1::ExplainResponse> Explain(const v1::ExplainRequest& request, Duration timeout);
  Result<v1::ResetLimitResponse> ResetLimit(const v1::ResetLimitRequest& request, Duration timeout);
  Result<v1::ListRulesResponse> ListRules(const v1::ListRulesRequest& request, Duration timeout);
  Result<v1::ReloadRulesResponse> ReloadRules(const v1::ReloadRulesRequest& request,
                                              Duration timeout);

 private:
  struct Stub;

  const std::string token_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace sluice
