// A Redis URL is parsed without a crash.
#include <string_view>

#include "store/redis/redis_url.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  static_cast<void>(sluice::RedisUrl::Parse({reinterpret_cast<const char*>(data), size}));
  return 0;
}
