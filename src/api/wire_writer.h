// Appends protobuf's wire format to a string. The caller omits fields with default values where
// protobuf would.
//
// One thread. Must not outlive the string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

class WireWriter {
 public:
  explicit WireWriter(std::string& out) : out_(out) {}

  // Any integer, boolean or enumeration, except sint32 and sint64. REQUIRES: 0 < field < 16
  void WriteVarint(std::uint32_t field, std::uint64_t value);

  // A double, as its bits, or a fixed64. REQUIRES: 0 < field < 16
  void WriteFixed64(std::uint32_t field, std::uint64_t bits);

  // A string, bytes, or a serialized message. REQUIRES: 0 < field < 16
  void WriteBytes(std::uint32_t field, std::string_view bytes);

  // A message: everything written between Begin and End. Pass Begin's result to End. REQUIRES: 0 <
  // field < 16
  std::size_t BeginMessage(std::uint32_t field);
  void EndMessage(std::size_t begin);

 private:
  std::string& out_;
};

}  // namespace sluice
