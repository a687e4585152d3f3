// Services for tests of the gRPC server: each method does one small thing.
#pragma once

#include <atomic>

#include "rpc/method.h"

namespace sluice::test {

// Counts the events of a server's handlers. Thread-safe.
struct Seen {
  std::atomic<int> handlers = 0;      // made
  std::atomic<int> served = 0;        // calls begun
  std::atomic<int> canceled = 0;      // OnCancel
  std::atomic<int> half_closed = 0;   // OnHalfClose
  std::atomic<int> drained = 0;       // OnDrain
  std::atomic<int> writable = 0;      // OnWritable
  std::atomic<int> received = 0;      // messages of streams
  std::atomic<int> wrong_thread = 0;  // calls begun on a thread other than the loop's
};

// Unary methods and their responses:
//   /test.Unary/Echo       the request
//   /test.Unary/Fail       FAILED_PRECONDITION, with the request as its message
//   /test.Unary/Metadata   the value of the header that the request names, if it occurs once; or
//                          NOT_FOUND
//   /test.Unary/TimeLeft   whole seconds until the deadline, rounded; or "never"
//   /test.Unary/Peer       the caller's address
//   /test.Unary/Identities "tls" or "plain", a space, the names of the caller's certificate
//   /test.Unary/Later      the request, one iteration of the loop later
//   /test.Unary/Hold       CANCELLED once the call is canceled
//   /test.Unary/Never      never responds
// Streams. All except Never finish when canceled, and with UNAVAILABLE when draining:
//   /test.Stream/Echo      each message; OK after the half-close
//   /test.Stream/Count     at the half-close, the number of messages; then OK
//   /test.Stream/Sized     for each message N, a message of N bytes; OK after the half-close
//   /test.Stream/First     OK after the first message
//   /test.Stream/Slow      like Echo, but pauses reading for an iteration after each message
//   /test.Stream/Deaf      never reads
//   /test.Stream/Once      echoes the first message and pauses reading
//   /test.Stream/Refuse    PERMISSION_DENIED at once
//   /test.Stream/Never     never finishes
// `seen` must outlive the server.
rpc::Methods EchoMethods(Seen& seen);

}  // namespace sluice::test
