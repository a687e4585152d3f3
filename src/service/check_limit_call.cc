#include "service/check_limit_call.h"

#include "service/api_codec.h"
#include "service/check_request_parser.h"

namespace sluice {

void CheckLimitCall::Serve() {
  const SteadyTime received = SteadyNow();
  if (const auto parsed = ParseCheckRequest(RequestBytes(), request, request_id_); !parsed) {
    return Refuse(parsed.error());
  }
  request.deadline = Deadline();
  Start(received);
}

void CheckLimitCall::OnAnswer(const Result<CheckAnswer>& answer) {
  if (!answer) return Finish(answer.error());
  FillResponse(*answer, request_id_, response_);
  const grpc::ByteBuffer bytes = Serialize(response_);
  ObserveDuration();
  Finish(bytes);
}

}  // namespace sluice
