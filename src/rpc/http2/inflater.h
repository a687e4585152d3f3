// Decompresses whole messages with zlib, up to a size limit.
//
// Loop thread only. Shared by all connections of a loop: zlib's state of 40 KB is allocated for the
// first compressed message and reused.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "rpc/http2/request_head.h"

struct z_stream_s;

namespace sluice::rpc::http2 {

class Inflater {
 public:
  enum class Outcome : std::uint8_t { kDone, kCorrupt, kTooLarge };

  Inflater();
  ~Inflater();

  // Replaces `out` with the inflated message, of at most `max_bytes`.
  // REQUIRES: encoding is kGzip or kDeflate.
  Outcome Inflate(Encoding encoding, std::string_view compressed, std::size_t max_bytes,
                  std::string& out);

  // The number of bytes inflated so far, over all messages.
  std::size_t total() const { return total_; }

 private:
  const std::unique_ptr<z_stream_s> stream_;
  bool ready_ = false;
  std::size_t total_ = 0;
};

}  // namespace sluice::rpc::http2
