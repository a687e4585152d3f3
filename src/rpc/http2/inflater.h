// Inflates compressed messages: zlib, in one piece, up to a limit.
//
// Loop thread only. One for all connections of a loop: zlib's state of 40 KB is made when the first
// compressed message comes, and used again.
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

  // Replaces `out` by what `compressed` inflates to, at most `max_bytes`.
  // REQUIRES: encoding is kGzip or kDeflate.
  Outcome Inflate(Encoding encoding, std::string_view compressed, std::size_t max_bytes,
                  std::string& out);

  // All bytes that were ever inflated.
  std::size_t total() const { return total_; }

 private:
  const std::unique_ptr<z_stream_s> stream_;
  bool ready_ = false;
  std::size_t total_ = 0;
};

}  // namespace sluice::rpc::http2
