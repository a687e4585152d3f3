// Reads protobuf's wire format from contiguous bytes without copying: reads return views of the
// bytes. Accepts and rejects exactly what protobuf's parser does.
//
// Not thread-safe. The bytes must outlive the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// The maximum nesting depth of groups and messages, as in protobuf.
inline constexpr int kMaxWireDepth = 100;

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroupStart = 3,
  kGroupEnd = 4,
  kFixed32 = 5,
};

struct WireTag {
  std::uint32_t field = 0;
  WireType type = WireType::kVarint;

  bool operator==(const WireTag&) const = default;
};

// A read returns nullopt if the bytes are malformed. The reader must not be used after that.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes, int depth = kMaxWireDepth)
      : bytes_(bytes), depth_(depth) {}

  bool done() const { return bytes_.empty(); }

  // The nesting depth still allowed for messages within this one.
  int depth() const { return depth_; }

  std::optional<WireTag> ReadTag();
  std::optional<std::uint64_t> ReadVarint();
  std::optional<std::string_view> ReadBytes();

  // Skips the value that follows `tag`.
  bool Skip(WireTag tag) { return Skip(tag, depth_); }

 private:
  bool Skip(WireTag tag, int depth);
  bool SkipGroup(std::uint32_t field, int depth);
  bool SkipFixed(std::size_t size);

  // Inline for the common case, a single byte.
  std::optional<std::uint64_t> ReadVarint(int max_bytes) {
    const bool is_short = !bytes_.empty() && static_cast<signed char>(bytes_.front()) >= 0;
    if (!is_short) return ReadLongVarint(max_bytes);
    const auto value = static_cast<std::uint64_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return value;
  }
  std::optional<std::uint64_t> ReadLongVarint(int max_bytes);

  std::string_view bytes_;
  int depth_;
};

}  // namespace sluice
