// Reads protobuf's wire format from contiguous bytes without copying: what is read are views into
// them. Accepts and refuses exactly what protobuf's own parser does.
//
// One thread. A value: it must not outlive the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice {

// How deep groups and messages may nest, as in protobuf.
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

// After a read that returned nothing the bytes are malformed, and the reader of no further use.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes, int depth = kMaxWireDepth)
      : bytes_(bytes), depth_(depth) {}

  bool done() const { return bytes_.empty(); }

  // What is left of kMaxWireDepth for messages within this one.
  int depth() const { return depth_; }

  std::optional<WireTag> ReadTag();
  std::optional<std::uint64_t> ReadVarint();
  std::optional<std::string_view> ReadBytes();

  // Passes over the value that follows `tag`.
  bool Skip(WireTag tag) { return Skip(tag, depth_); }

 private:
  bool Skip(WireTag tag, int depth);
  bool SkipGroup(std::uint32_t field, int depth);
  bool SkipFixed(std::size_t size);

  // Most numbers have one byte.
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
