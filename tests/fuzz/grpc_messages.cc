// The bytes of a request are split into messages, and compressed messages are inflated, without a
// crash. No message exceeds the limit.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "rpc/http2/inflater.h"
#include "rpc/http2/message_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using sluice::rpc::http2::Encoding;
  using sluice::rpc::http2::Inflater;
  using sluice::rpc::http2::MessageReader;
  constexpr std::size_t kMaxBytes = 4096;
  static Inflater inflater;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t piece = input.empty() ? 1 : static_cast<std::size_t>(data[0] & 0x7f) + 1;
  const Encoding encoding = size > 0 && data[0] > 0x7f ? Encoding::kGzip : Encoding::kDeflate;
  MessageReader reader;
  while (!input.empty()) {
    reader.Append(input.substr(0, piece));
    input.remove_prefix(std::min(piece, input.size()));
    while (reader.Take(kMaxBytes) == MessageReader::Next::kMessage) {
      std::string inflated;
      if (reader.message().size() > kMaxBytes) std::abort();
      if (!reader.compressed()) continue;
      inflater.Inflate(encoding, reader.message(), kMaxBytes, inflated);
      if (inflated.size() > kMaxBytes) std::abort();
    }
  }
  return 0;
}
