#include "service/check_limit_handler.h"

#include "api/answer_writer.h"
#include "api/check_request_parser.h"
#include "api/status.h"

namespace sluice {

void CheckLimitHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  const Caller* caller = nullptr;
  if (access_ != nullptr) {
    const auto known = access_->Identify(call);
    if (!known) return Refuse(known.error());
    caller = *known;
  }
  if (const auto parsed = ParseCheckRequest(bytes, request, request_id_); !parsed) {
    return Refuse(parsed.error());
  }
  if (caller != nullptr) {
    if (const auto may = access_->MayCheck(*caller, request); !may) return Refuse(may.error());
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
