#include "service/check_item.h"

#include <sluice/v1/rate_limiter.pb.h>

#include "service/api_codec.h"
#include "service/check_request_parser.h"

namespace sluice {
namespace {

// A request of more leaves no memory behind.
constexpr std::size_t kMaxKeptBytes = 4096;

}  // namespace

bool CheckItem::Start(std::string_view bytes, const Terms& terms) {
  owner_ = &terms.owner;
  if (const auto parsed = ParseCheckRequest(bytes, request, request_id_); !parsed) {
    request_id_ = FindRequestId(bytes);
    Refuse(parsed.error());
    return false;
  }
  request.deadline = terms.deadline;
  request.in_order = terms.in_order;
  request.ask_store = terms.ask_store;
  const bool gives_back = request.demand.mode == Mode::kRefund;
  CheckCall::Start(terms.received);
  return gives_back;
}

std::string_view CheckItem::Keep(std::string_view bytes) {
  kept_ = bytes;
  kept_bytes_ = bytes.size();
  return kept_;
}

void CheckItem::OnAnswer(const Result<CheckAnswer>& answer) {
  // One message per thread, not per item: many items wait at a time, few are answered.
  thread_local v1::CheckLimitsResponse response;
  auto& result =
      response.results_size() == 0 ? *response.add_results() : *response.mutable_results(0);
  if (answer) {
    FillResponse(*answer, request_id_, *result.mutable_response());
  } else {
    FillError(answer.error(), request_id_, *result.mutable_error());
  }
  response.SerializeToString(&result_);
  if (answer) ObserveDuration();
  if (kept_.capacity() > kMaxKeptBytes) kept_ = std::string();
  owner_->OnAnswered(*this);
}

}  // namespace sluice
