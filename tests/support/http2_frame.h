// HTTP/2 frames (RFC 9113, section 4.1), for tests that send or receive frames without a library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice::test {

struct Http2Frame {
  static constexpr char kData = 0;
  static constexpr char kHeaders = 1;
  static constexpr char kPriority = 2;
  static constexpr char kResetStream = 3;
  static constexpr char kSettings = 4;
  static constexpr char kPushPromise = 5;
  static constexpr char kPing = 6;
  static constexpr char kGoaway = 7;
  static constexpr char kWindowUpdate = 8;
  static constexpr char kContinuation = 9;
  // Flags.
  static constexpr char kEndStream = 1;
  static constexpr char kAck = 1;
  static constexpr char kEndHeaders = 4;
  static constexpr char kPadded = 8;
  static constexpr char kHasPriority = 32;

  char type = kData;
  std::uint32_t stream = 0;
  std::string payload = {};
  char flags = 0;

  // The frame in wire format.
  std::string Bytes() const;

  // Removes the first frame from `heard` and returns it. Returns nullopt if it is incomplete.
  static std::optional<Http2Frame> Take(std::string& heard);
};

// The client's connection preface.
inline constexpr char kHttp2Preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// The `size` lowest bytes of `number`, the most significant first.
std::string BigEndian(std::uint32_t number, std::size_t size);

}  // namespace sluice::test
