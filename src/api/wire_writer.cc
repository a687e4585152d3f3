#include "api/wire_writer.h"

#include <array>

namespace sluice {
namespace {

constexpr char kVarint = 0;
constexpr char kFixed64 = 1;
constexpr char kBytes = 2;
constexpr std::size_t kMaxVarintBytes = 10;

char TagOf(std::uint32_t field, char type) { return static_cast<char>(field << 3) | type; }

// Returns the number of bytes written to `to`.
std::size_t PutVarint(std::uint64_t value, char* to) {
  std::size_t size = 0;
  for (; value >= 0x80; value >>= 7) to[size++] = static_cast<char>(value | 0x80);
  to[size++] = static_cast<char>(value);
  return size;
}

}  // namespace

void WireWriter::WriteVarint(std::uint32_t field, std::uint64_t value) {
  if (value < 0x80) {
    out_ += TagOf(field, kVarint);
    out_ += static_cast<char>(value);
    return;
  }
  std::array<char, 1 + kMaxVarintBytes> bytes;
  bytes[0] = TagOf(field, kVarint);
  out_.append(bytes.data(), 1 + PutVarint(value, bytes.data() + 1));
}

void WireWriter::WriteFixed64(std::uint32_t field, std::uint64_t bits) {
  out_ += TagOf(field, kFixed64);
  for (int shift = 0; shift < 64; shift += 8) out_ += static_cast<char>(bits >> shift);
}

void WireWriter::WriteBytes(std::uint32_t field, std::string_view bytes) {
  std::array<char, 1 + kMaxVarintBytes> head;
  head[0] = TagOf(field, kBytes);
  out_.append(head.data(), 1 + PutVarint(bytes.size(), head.data() + 1)).append(bytes);
}

// Reserves one byte for the length, since most messages have fewer than 128 bytes.
std::size_t WireWriter::BeginMessage(std::uint32_t field) {
  out_ += TagOf(field, kBytes);
  out_ += '\0';
  return out_.size();
}

void WireWriter::EndMessage(std::size_t begin) {
  std::array<char, kMaxVarintBytes> length;
  const std::size_t bytes = PutVarint(out_.size() - begin, length.data());
  out_[begin - 1] = length[0];
  if (bytes > 1) out_.insert(begin, length.data() + 1, bytes - 1);
}

}  // namespace sluice
