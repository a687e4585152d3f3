// The identity of the other end of a connection.
#pragma once

#include <string>
#include <vector>

namespace sluice::net {

struct Peer {
  std::string address;                  // "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix"
  std::string network = {};             // Endpoint::Network: what limits count as one peer
  bool tls = false;                     // whether the connection is encrypted
  std::vector<std::string> identities;  // subject alternative names of a verified certificate
};

}  // namespace sluice::net
