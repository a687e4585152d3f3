#include "service/check_limit_handler.h"

#include "api/answer_writer.h"
#include "api/check_request_parser.h"
#include "api/status.h"

namespace sluice {

void CheckLimitHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  if (const auto parsed = ParseCheckRequest(bytes, request, request_id_); !parsed) {
    return Refuse(parsed.error());
  }
  request.deadline = call.deadline();
  Start(call.received());
}

void CheckLimitHandler::OnAnswer(const Result<CheckAnswer>& answer) {
  if (!answer) return Finish(ToStatus(answer.error()));
  response_.clear();
  AppendResponse(*answer, request_id_, response_);
  ObserveDuration();
  Finish(response_, LeaseReturn());
}

}  // namespace sluice
