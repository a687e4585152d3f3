#include "rpc/http2/inflater.h"

#include <algorithm>

#include <zlib.h>

namespace sluice::rpc::http2 {
namespace {

constexpr int kZlibFormat = 15;       // "deflate" in gRPC, as in HTTP, is zlib's format
constexpr int kGzipFormat = 15 + 16;  // 15 is the window size, 16 selects gzip
constexpr std::size_t kFirstBytes = 16 * 1024;

}  // namespace

Inflater::Inflater() : stream_(std::make_unique<z_stream_s>()) {}

Inflater::~Inflater() {
  if (ready_) inflateEnd(stream_.get());
}

Inflater::Outcome Inflater::Inflate(Encoding encoding, std::string_view compressed,
                                    std::size_t max_bytes, std::string& out) {
  const int format = encoding == Encoding::kGzip ? kGzipFormat : kZlibFormat;
  const int began =
      ready_ ? inflateReset2(stream_.get(), format) : inflateInit2(stream_.get(), format);
  if (began != Z_OK) return Outcome::kCorrupt;
  ready_ = true;
  stream_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream_->avail_in = static_cast<uInt>(compressed.size());
  out.clear();
  for (;;) {
    // Room for one byte more than allowed, to detect a message that is too large.
    const std::size_t had = out.size();
    if (had > max_bytes) return Outcome::kTooLarge;
    out.resize(std::min(max_bytes + 1, std::max(kFirstBytes, 2 * had)));
    stream_->next_out = reinterpret_cast<Bytef*>(out.data() + had);
    stream_->avail_out = static_cast<uInt>(out.size() - had);
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    out.resize(out.size() - stream_->avail_out);
    total_ += out.size() - had;
    if (result == Z_STREAM_END) break;
    if (result != Z_OK || (stream_->avail_in == 0 && stream_->avail_out > 0)) {
      return Outcome::kCorrupt;
    }
  }
  if (stream_->avail_in > 0) return Outcome::kCorrupt;
  return out.size() > max_bytes ? Outcome::kTooLarge : Outcome::kDone;
}

}  // namespace sluice::rpc::http2
