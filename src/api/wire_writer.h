// Writes protobuf's wire format to the end of a string. Fields that have their default value are
// the caller's to leave out, where protobuf would.
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

  // Any integer, boolean or enumeration, but sint32 and sint64. REQUIRES: 0 < field < 16
  void WriteVarint(std::uint32_t field, std::uint64_t value);

  // A string, bytes, or a message that is serialized already. REQUIRES: 0 < field < 16
  void WriteBytes(std::uint32_t field, std::string_view bytes);

  // A message: what is written between the two. End takes what Begin has returned.
  // REQUIRES: 0 < field < 16
  std::size_t BeginMessage(std::uint32_t field);
  void EndMessage(std::size_t begin);

 private:
  std::string& out_;
};

}  // namespace sluice
