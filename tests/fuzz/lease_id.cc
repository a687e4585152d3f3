// A lease id. If it is accepted, it can be written again with the same meaning.
#include <cstdlib>
#include <string_view>

#include "limiter/lease_name.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto name = sluice::LeaseName::Parse(text);
  if (name && name->ToText() != text) std::abort();
  return 0;
}
