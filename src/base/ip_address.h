// IP addresses and networks as values in canonical form: different spellings of one address
// compare equal and print the same.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"

namespace sluice {

class IpAddress {
 public:
  // 0.0.0.0
  IpAddress() = default;

  // Reads "10.1.2.3" or any form of an IPv6 address. A zone ("%eth0") is dropped, and an IPv4
  // address mapped into IPv6 ("::ffff:10.1.2.3") becomes IPv4. Nothing else is tolerated: no
  // brackets, ports, spaces or leading zeros of IPv4.
  static std::optional<IpAddress> Parse(std::string_view text);

  bool is_v4() const { return v4_; }

  // The number of bits: 32 or 128.
  int bits() const { return v4_ ? 32 : 128; }

  // The address with all but its leading `prefix` bits cleared. REQUIRES: 0 <= prefix <= bits().
  IpAddress Masked(int prefix) const;

  // The canonical text (RFC 5952 for IPv6).
  std::string ToString() const;
  void AppendTo(std::string& out) const;

  bool operator==(const IpAddress&) const = default;

 private:
  friend struct IpNetwork;
  std::array<std::uint8_t, 16> bytes_{};  // IPv4: the first four, the others are zero
  bool v4_ = true;
};

struct IpNetwork {
  IpAddress address;  // masked to `prefix`
  int prefix = 0;

  // Reads "10.0.0.0/8" or "2001:db8::/32". Bits beyond the prefix must be zero: set bits are
  // usually a typing error. The error says what is allowed.
  static Result<IpNetwork> Parse(std::string_view text);

  // The network with the leading `prefix` bits of `address`.
  static IpNetwork Of(const IpAddress& address, int prefix) {
    return {address.Masked(prefix), prefix};
  }

  // False if `other` is of another address family.
  bool Contains(const IpAddress& other) const {
    return other.is_v4() == address.is_v4() && other.Masked(prefix) == address;
  }

  std::string ToString() const;
  std::size_t Hash() const;

  bool operator==(const IpNetwork&) const = default;
};

}  // namespace sluice
