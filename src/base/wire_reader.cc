#include "base/wire_reader.h"

namespace sluice {

std::optional<WireTag> WireReader::ReadTag() {
  const auto value = ReadVarint(5);
  if (!value) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(*value);
  const WireTag tag{number >> 3, static_cast<WireType>(number & 7)};
  if (tag.field == 0 || tag.type > WireType::kFixed32) return std::nullopt;
  return tag;
}

std::optional<std::uint64_t> WireReader::ReadVarint() { return ReadVarint(10); }

std::optional<std::uint64_t> WireReader::ReadLongVarint(int max_bytes) {
  std::uint64_t value = 0;
  for (int i = 0; i < max_bytes && !bytes_.empty(); ++i) {
    const auto byte = static_cast<std::uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> WireReader::ReadBytes() {
  const auto size = ReadVarint(5);
  if (!size || *size > bytes_.size()) return std::nullopt;
  const std::string_view read = bytes_.substr(0, *size);
  bytes_.remove_prefix(*size);
  return read;
}

bool WireReader::Skip(WireTag tag, int depth) {
  switch (tag.type) {
    case WireType::kVarint:
      return ReadVarint().has_value();
    case WireType::kFixed64:
      return SkipFixed(8);
    case WireType::kBytes:
      return ReadBytes().has_value();
    case WireType::kGroupStart:
      return SkipGroup(tag.field, depth - 1);
    case WireType::kGroupEnd:
      return false;  // no group was started
    case WireType::kFixed32:
      return SkipFixed(4);
  }
  return false;
}

bool WireReader::SkipGroup(std::uint32_t field, int depth) {
  if (depth < 0) return false;
  const WireTag end{field, WireType::kGroupEnd};
  while (!done()) {
    const auto tag = ReadTag();
    if (!tag) return false;
    if (*tag == end) return true;
    if (!Skip(*tag, depth)) return false;
  }
  return false;
}

bool WireReader::SkipFixed(std::size_t size) {
  if (bytes_.size() < size) return false;
  bytes_.remove_prefix(size);
  return true;
}

}  // namespace sluice
