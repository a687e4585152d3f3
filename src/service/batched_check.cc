#include "service/batched_check.h"

#include "api/answer_writer.h"
#include "api/check_request_parser.h"

namespace sluice {

bool BatchedCheck::Start(std::string_view bytes, const Terms& terms, Owner& owner) {
  owner_ = &owner;
  if (const auto parsed = ParseCheckRequest(bytes, request, request_id_); !parsed) {
    request_id_ = FindRequestId(bytes);
    Refuse(parsed.error());
    return false;
  }
  if (terms.access != nullptr) {
    if (const auto may = terms.access->MayCheck(*terms.caller, request); !may) {
      Refuse(may.error());
      return false;
    }
  }
  request.deadline = terms.deadline;
  request.in_order = terms.in_order;
  request.ask_store = terms.ask_store;
  const bool is_refund = request.demand.mode == Mode::kRefund;
  CheckCall::Start(terms.received);
  return is_refund;
}

void BatchedCheck::OnAnswer(const Result<CheckAnswer>& answer) {
  result_.clear();
  AppendResult(answer, request_id_, result_);
  lease_return_ = LeaseReturn();
  if (answer) ObserveDuration();
  owner_->OnAnswered(*this);
}

}  // namespace sluice
