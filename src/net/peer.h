// The identity of the other end of a connection.
#pragma once

#include <string>
#include <vector>

namespace sluice::net {

struct Peer {
  std::string address;       // "192.0.2.1:4711", "[2001:db8::1]:4711" or "unix"
  std::string network = {};  // Endpoint::Network; limits count a network as one peer
  bool tls = false;          // whether the connection is encrypted
  // The subject alternative names of a verified certificate, each with its type: "dns:a.example",
  // "uri:spiffe://example/a", "ip:192.0.2.1", "email:a@example".
  std::vector<std::string> identities;
};

}  // namespace sluice::net
