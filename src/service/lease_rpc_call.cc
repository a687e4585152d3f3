#include "service/lease_rpc_call.h"

#include <optional>
#include <string_view>

#include "base/wire_reader.h"
#include "service/api_codec.h"

namespace sluice {
namespace {

// The field `lease_id`, which both requests have. Nothing if `bytes` are malformed.
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

v1::RenewLeaseResponse ResponseOf(RenewLeaseRpc, Duration ttl) {
  v1::RenewLeaseResponse response;
  FillDuration(ttl, *response.mutable_ttl());
  return response;
}

v1::ReleaseLeaseResponse ResponseOf(ReleaseLeaseRpc, Duration) { return {}; }

}  // namespace

template <typename Rpc>
void LeaseRpcCall<Rpc>::Serve() {
  const auto id = ParseLeaseId(RequestBytes());
  if (!id) return Finish(InvalidArgument("the request is not a valid protobuf message"));
  Start(Rpc::kAction, *id, Deadline());
}

template <typename Rpc>
void LeaseRpcCall<Rpc>::OnLease(const Result<Duration>& ttl) {
  if (!ttl) return Finish(ttl.error());
  Finish(Serialize(ResponseOf(Rpc(), *ttl)));
}

template class LeaseRpcCall<RenewLeaseRpc>;
template class LeaseRpcCall<ReleaseLeaseRpc>;

}  // namespace sluice
