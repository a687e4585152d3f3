// A lease id is parsed without a crash. If it is accepted, it is written back as the same text.
#include <cstdlib>
#include <string_view>

#include "limiter/lease_name.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto name = sluice::LeaseName::Parse(text);
  if (name && name->ToText() != text) std::abort();
  return 0;
}
