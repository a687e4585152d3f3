// Writes a generator's messages, framed for gRPC. Messages have the same size and differ only in
// digits, so writing one copies a template and sets the digits.
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

  // Appends a message of plan.checks checks, each with the next key. On a stream, `id` (below
  // kMaxInFlight) becomes the request_id of all of them.
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

// The `id` of the message with this request_id, or kMaxInFlight if there is none.
std::uint32_t ParseRequestId(std::string_view request_id);

}  // namespace sluice::load
