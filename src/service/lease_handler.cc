#include "service/lease_handler.h"

#include <optional>

#include "api/answer_writer.h"
#include "api/status.h"
#include "base/wire_reader.h"

namespace sluice {
namespace {

// The field `lease_id`, common to both requests. Empty if `bytes` are malformed.
std::optional<std::string_view> ParseLeaseId(std::string_view bytes) {
  constexpr WireTag kLeaseId{1, WireType::kBytes};
  WireReader reader(bytes);
  std::string_view id;
  while (!reader.done()) {
    const auto tag = reader.ReadTag();
    if (!tag) return std::nullopt;
    if (*tag == kLeaseId) {
      const auto read = reader.ReadBytes();
      if (!read) return std::nullopt;
      id = *read;
    } else if (!reader.Skip(*tag)) {
      return std::nullopt;
    }
  }
  return id;
}

}  // namespace

void LeaseHandler::Serve(const rpc::Call& call, std::string_view bytes) {
  const auto id = ParseLeaseId(bytes);
  if (access_ != nullptr) {
    if (const auto may = Admit(call, id.value_or("")); !may) return Finish(ToStatus(may.error()));
  }
  if (!id) {
    return Finish(ToStatus(InvalidArgument("the request is not a valid protobuf message")));
  }
  Start(action_, *id, call.deadline());
}

Result<void> LeaseHandler::Admit(const rpc::Call& call, std::string_view lease_id) const {
  const auto caller = access_->Identify(call);
  if (!caller) return caller.error();
  return access_->MayUseLease(**caller, lease_id);
}

// A ReleaseLeaseResponse is empty.
void LeaseHandler::OnLease(const Result<Duration>& ttl) {
  if (!ttl) return Finish(ToStatus(ttl.error()));
  response_.clear();
  if (action_ == Action::kRenew) AppendRenewal(*ttl, response_);
  Finish(response_);
}

}  // namespace sluice
