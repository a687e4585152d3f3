// A server to call, and the caller's credentials.
#pragma once

#include <optional>
#include <string>

#include "base/address.h"
#include "net/tls_context.h"

namespace sluice {

struct Target {
  Address address;
  std::optional<net::TlsFiles> tls;  // absent: plaintext
  std::string tls_server_name;       // the name in the server's certificate; empty: the host
  std::string token;                 // sent as a bearer token; empty: none
};

}  // namespace sluice
