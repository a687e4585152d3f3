// Reads serialized protobuf messages field by field, without generated classes and without copies.
//
// Thread-safe.
#pragma once

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sluice {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The maximum number of fields in a received message, over all its levels, so that a small
// compressed message cannot cause much work. In a message with many checks, the fields of each
// check are counted separately. So a message with 1,000 checks, or a check with the most
// attributes, has less than half of this number.
inline constexpr int kMaxFields = 4096;

// The tags of fields on the wire.
constexpr std::uint32_t BytesTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr std::uint32_t NumberTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_VARINT);
}

inline CodedInputStream InputOf(std::string_view bytes) {
  return CodedInputStream(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                          static_cast<int>(bytes.size()));
}

// Calls `read(tag, input)` for each field of a message, and subtracts the number of fields from
// `left`. Returns false if `read` does, if the bytes are malformed, or if there are more fields
// than `left`.
template <typename Read>
bool ForEachField(std::string_view bytes, int& left, const Read& read) {
  CodedInputStream input = InputOf(bytes);
  while (const std::uint32_t tag = input.ReadTag()) {
    if (--left < 0 || !read(tag, input)) return false;
  }
  return input.ConsumedEntireMessage();
}

// Reads the value of a field that is a text, bytes or a message. Sets `bytes` to a view of the
// value in the input.
inline bool ReadBytes(CodedInputStream& input, std::string_view& bytes) {
  int size = 0;
  const void* begin = nullptr;
  int left = 0;
  if (!input.ReadVarintSizeAsInt(&size)) return false;
  input.GetDirectBufferPointerInline(&begin, &left);
  if (size > left) return false;
  bytes = {static_cast<const char*>(begin), static_cast<std::size_t>(size)};
  return input.Skip(size);
}

}  // namespace sluice
