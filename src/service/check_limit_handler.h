// CheckLimit: parses the request and writes the answer. Does not allocate once its buffers have
// grown.
//
// Loop thread only. A canceled check continues to its end, because the store refers to it until
// then. If an answer cannot be delivered, its lease is released.
#pragma once

#include <string>
#include <string_view>

#include "api/caller_access.h"
#include "api/check_message.h"
#include "limiter/check_call.h"
#include "rpc/handler.h"

namespace sluice {

class CheckLimitHandler final : public rpc::UnaryHandler, private CheckCall {
 public:
  // `response` is a buffer of the loop. If `access` is null, every caller is admitted. All
  // arguments must outlive the handler.
  CheckLimitHandler(Limiter& limiter, std::string& response, const CallerAccess* access = nullptr)
      : CheckCall(limiter), response_(response), access_(access) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  std::string& response_;
  const CallerAccess* const access_;
  CheckMessage message_;
};

}  // namespace sluice
