// Writes the messages a generator sends, framed for gRPC. All are of one size and differ only in
// digits, so that writing one is a copy and a few digits.
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
  // `seed` decides the order of the keys.
  RequestWriter(const Plan& plan, std::uint64_t seed);

  // Appends a message of plan.checks checks, each with its own key. `id` (below kMaxInFlight)
  // becomes the request_id of all of them; only a stream has one.
  void Append(std::uint32_t id, std::string& out);

 private:
  KeySequence keys_;
  std::string message_;         // with room for the digits
  std::size_t first_key_ = 0;   // where the first check's key is
  std::size_t first_id_ = 0;    // and its request_id; 0: it has none
  std::size_t check_size_ = 0;  // from check to check
  std::uint32_t checks_ = 0;
  bool has_key_ = false;
};

// The name of the RPC as HTTP/2 has it.
const char* PathOf(Rpc rpc);

// The number of a message that bears this request_id; kMaxInFlight if it is none of ours.
std::uint32_t ParseRequestId(std::string_view request_id);

}  // namespace sluice::load
