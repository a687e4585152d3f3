// A serialized CheckLimitsRequest is split into its checks without a crash.
#include <string_view>
#include <vector>

#include "api/check_message.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  std::vector<std::string_view> checks;
  static_cast<void>(sluice::ParseChecks({reinterpret_cast<const char*>(data), size}, checks));
  return 0;
}
