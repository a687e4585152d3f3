// The expected responses to requests given as raw bytes: one table for our server and for gRPC's.
// Where the two servers differ, the table has both responses and the reason.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/rpc/echo_methods.h"
#include "tests/rpc/raw_connection.h"
#include "tests/rpc/raw_request.h"

namespace sluice::test {

// The maximum message size in these tests.
inline constexpr std::size_t kMaxMessage = 4096;

struct Differs {
  std::string reason;
  std::string ours;
  std::string grpc;  // may contain "*" for text that varies
};

// Why the two servers differ. "gRPC" is gRPC's C++ server 1.51.
inline constexpr char kUnchecked[] = "RFC 9113 calls this an error; gRPC does not check it";
inline constexpr char kNoGoaway[] = "gRPC closes the connection without the required GOAWAY";
inline constexpr char kNoPadding[] = "gRPC cannot read padded frames";
inline constexpr char kGoodbye[] =
    "after a client's GOAWAY, our server closes the connection once all answers are sent";
inline constexpr char kAnyContentType[] = "gRPC serves any content-type; its protocol requires 415";
inline constexpr char kUnknown[] =
    "gRPC answers UNKNOWN to a missing or wrong field; our server answers 405 to a wrong method, "
    "accepts any scheme and a missing te, and otherwise resets the stream, as HTTP/2 requires";
inline constexpr char kBinary[] =
    "gRPC decodes the values of headers whose names end in -bin; Sluice reads no such headers";
inline constexpr char kLooseTimeouts[] = "gRPC accepts timeouts that its protocol does not allow";
inline constexpr char kWaitsForTheEnd[] =
    "our server waits for the end of a unary request, to detect a second message; gRPC does not";
inline constexpr char kNotInflated[] =
    "gRPC accepts messages with unknown or invalid compression; its protocol requires an error";
inline constexpr char kInternalReset[] =
    "gRPC resets a call whose message cannot be decompressed; our server sends a status";
inline constexpr char kResetsToo[] =
    "gRPC resets a stream with NO_ERROR even if the request has ended; callers ignore the reset";
inline constexpr char kLargeFields[] =
    "gRPC does not decode all of the fields, so it closes the connection; our server decodes all";
inline constexpr char kWholeMessage[] =
    "gRPC checks a message's size after its last byte; our server checks the size in the prefix";
inline constexpr char kSameTurn[] = "our server drops unsent output when a call fails";
inline constexpr char kTrailers[] =
    "gRPC ends the call when a request has trailers; our server ignores well-formed trailers";

struct DoorRow {
  static constexpr int kAnyNumber = -1;
  using Steps = std::function<void(RawConnection&, const Seen&)>;

  std::string name;
  Steps run;
  // The expected outcome: RawStream::Text of each stream, joined by " | ". If the connection does
  // not survive, "; " and RawConnection::Health follow. Without streams, the outcome is Health. If
  // the expected text of a stream contains "open", the test does not wait for the stream's end.
  std::string expected;
  std::optional<Differs> differs = std::nullopt;  // instead of `expected`
  // The expected grpc-message of the first stream. Absent: not checked.
  std::optional<std::string> message = std::nullopt;
  int streams = 1;   // how many streams the outcome has; their ids: 1, 3, 5, …
  int canceled = 0;  // number of OnCancel calls, or kAnyNumber
  // The value of `canceled` for gRPC's server, if it differs. gRPC may report an unreadable message
  // as a half-close.
  std::optional<int> grpc_canceled = std::nullopt;
};

inline std::ostream& operator<<(std::ostream& out, const DoorRow& row) { return out << row.name; }

inline constexpr char kEcho[] = "/test.Unary/Echo";
inline constexpr char kEchoed[] = "200 0 'hello'";
inline RequestHeaders Echo() { return RequestHeaders(kEcho); }

// Sends a valid preface and SETTINGS, then `bytes`.
inline DoorRow::Steps Sends(std::string bytes) {
  return [bytes = std::move(bytes)](RawConnection& connection, const Seen&) {
    connection.SendPreface();
    connection.Send(bytes);
  };
}

// The rows, by subject.
std::vector<DoorRow> HeaderRows();
std::vector<DoorRow> TimeoutRows();
std::vector<DoorRow> MessageRows();
std::vector<DoorRow> StreamRows();
std::vector<DoorRow> FrameRows();

}  // namespace sluice::test
