#include "service/check_limit_handler.h"

#include "api/answer_writer.h"

namespace sluice {

void CheckLimitHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  const Caller* caller = nullptr;
  if (access_ != nullptr) {
    const auto known = access_->Identify(call);
    if (!known) return Refuse(known.error());
    caller = *known;
  }
  if (const auto parsed = message_.Parse(bytes, request); !parsed) {
    return Refuse(parsed.error());
  }
  if (caller != nullptr) {
    if (const auto may = access_->MayCheck(*caller, request); !may) return Refuse(may.error());
  }
  request.deadline = call.deadline();
  Start(call.received());
}

void CheckLimitHandler::OnAnswer(const Result<CheckAnswer>& answer) {
  if (!answer) {
    message_.Release();
    return Finish(ToStatus(answer.error()));
  }
  response_.clear();
  AppendResponse(*answer, message_.request_id(), response_);
  message_.Release();
  ObserveDuration();
  Finish(response_, LeaseReturn());
}

}  // namespace sluice
