// Writes a generator's messages, framed for gRPC. All messages have the same size and differ only
// in digits, so Append copies a template and sets the digits.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "load/key_sequence.h"
#include "load/plan.h"

namespace sluice::load {

class RequestWriter {
 public:
  // `seed` determines the sequence of keys.
  RequestWriter(const Plan& plan, std::uint64_t seed);

  // Appends a message of plan.checks checks, each with the next key. On a stream, all these checks
  // get the same request_id, made from `id` (below kMaxInFlight).
  void Append(std::uint32_t id, std::string& out);

 private:
  KeySequence keys_;
  std::string message_;         // the template
  std::size_t first_key_ = 0;   // position of the first check's key; 0: none
  std::size_t first_id_ = 0;    // position of the first check's request_id; 0: none
  std::size_t check_size_ = 0;  // distance between checks
  std::uint32_t checks_ = 0;
};

// The HTTP/2 :path of the RPC.
const char* PathOf(Rpc rpc);

// The `id` from which Append made `request_id`, or kMaxInFlight if Append did not make it.
std::uint32_t ParseRequestId(std::string_view request_id);

}  // namespace sluice::load
