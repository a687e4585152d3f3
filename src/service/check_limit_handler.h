// CheckLimit: from the request on the wire to the answer on it. Allocates nothing once its buffers
// have grown.
//
// Loop thread only. A cancelled check goes on to its end: the store has it until then. A lease in
// an answer that nobody takes is given back.
#pragma once

#include <string>
#include <string_view>

#include "limiter/check_call.h"
#include "rpc/handler.h"

namespace sluice {

class CheckLimitHandler final : public rpc::UnaryHandler, private CheckCall {
 public:
  // `response` is a buffer of the loop's; both must outlive the handler.
  CheckLimitHandler(Limiter& limiter, std::string& response)
      : CheckCall(limiter), response_(response) {}

  void Serve(const rpc::Call& call, std::string_view bytes) override;

 private:
  void OnAnswer(const Result<CheckAnswer>& answer) override;

  std::string& response_;
  std::string_view request_id_;
};

}  // namespace sluice
