// A serialized CheckLimitRequest: parsed without a crash, and with the same result as protobuf's
// parser if both accept it.
#include <cstdlib>
#include <string>
#include <string_view>

#include <sluice/v1/rate_limiter.pb.h>

#include "api/check_request_parser.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  sluice::CheckRequest request;
  std::string_view request_id;
  const auto parsed = sluice::ParseCheckRequest(bytes, request, request_id);
  sluice::FindRequestId(bytes);
  if (!parsed) return 0;
  sluice::v1::CheckLimitRequest expected;
  const bool same =
      expected.ParseFromString(bytes) && expected.domain() == request.domain &&
      expected.request_id() == request_id &&
      static_cast<std::size_t>(expected.attributes_size()) == request.attributes.size();
  if (!same) std::abort();
  return 0;
}
