#include "service/lease_handler.h"

#include <sluice/v1/rate_limiter.pb.h>

#include <utility>

#include "api/answer_writer.h"
#include "api/malformed_message.h"
#include "api/status.h"

namespace sluice {

void LeaseHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  v1::RenewLeaseRequest message;  // with the same field as a ReleaseLeaseRequest
  const bool parsed = message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  if (access_ != nullptr) {
    if (const auto may = Admit(call, message.lease_id()); !may) {
      return Finish(ToStatus(may.error()));
    }
  }
  if (!parsed) return Finish(ToStatus(MalformedMessage(*message.GetDescriptor(), bytes)));
  lease_id_ = std::move(*message.mutable_lease_id());
  Start(action_, lease_id_, call.deadline());
}

Result<void> LeaseHandler::Admit(const rpc::Call& call, std::string_view lease_id) const {
  const auto caller = access_->Identify(call);
  if (!caller) return caller.error();
  return access_->MayUseLease(**caller, lease_id);
}

// A ReleaseLeaseResponse is empty.
void LeaseHandler::OnLease(const Result<Duration>& ttl) {
  lease_id_ = std::string();
  if (!ttl) return Finish(ToStatus(ttl.error()));
  response_.clear();
  if (action_ == Action::kRenew) AppendRenewal(*ttl, response_);
  Finish(response_);
}

}  // namespace sluice
