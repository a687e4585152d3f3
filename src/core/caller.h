// An entry of the setting `callers`: a caller that may call the server, how the caller is
// identified, and its rights.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace sluice {

enum class CallerRight : std::uint8_t { kConsume, kPeek, kCharge, kRefund, kLease, kMetrics };

class CallerRights {
 public:
  constexpr CallerRights(std::initializer_list<CallerRight> rights = {}) {
    for (const CallerRight right : rights) Add(right);
  }

  constexpr void Add(CallerRight right) { bits_ |= 1U << static_cast<unsigned>(right); }
  constexpr bool Has(CallerRight right) const {
    return (bits_ >> static_cast<unsigned>(right) & 1U) != 0;
  }

  bool operator==(const CallerRights&) const = default;

 private:
  unsigned bits_ = 0;
};

struct Caller {
  std::string name;                     // for messages
  std::string token_file;               // file with its bearer tokens; empty: no tokens
  std::vector<std::string> identities;  // of its client certificate, as in net::Peer
  std::vector<std::string> domains;     // domains it has access to; "*": all
  // kLease: to take, renew, settle and release leases. kMetrics: to read /metrics.
  CallerRights rights = {CallerRight::kConsume, CallerRight::kPeek, CallerRight::kCharge,
                         CallerRight::kRefund, CallerRight::kLease};

  bool operator==(const Caller&) const = default;
};

}  // namespace sluice
