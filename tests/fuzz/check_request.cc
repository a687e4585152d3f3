// A serialized CheckLimitRequest is parsed without a crash. Even if it is refused, its request_id
// is valid.
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/check_message.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  sluice::CheckMessage message;
  sluice::CheckRequest request;
  const auto parsed = message.Parse({reinterpret_cast<const char*>(data), size}, request);
  const std::string_view id = message.request_id();
  if (id.size() > sluice::kMaxRequestIdBytes || !sluice::IsValidUtf8(id)) std::abort();
  if (parsed && request.attributes.size() > sluice::kMaxAttributes) std::abort();
  return 0;
}
