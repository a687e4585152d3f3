// How connections of a store reach and log in to any of its servers.
#pragma once

#include <string>

#include "base/secret.h"
#include "net/tls_context.h"
#include "store/redis/redis_url.h"

namespace sluice::redis {

struct ServerAccess {
  RedisLogin login;
  const Secret* password = nullptr;  // replaces the login's; if set, must outlive the connections
  const net::TlsClientContext* tls = nullptr;  // null: no TLS; must outlive the connections
  std::string server_name;      // the name in certificates; empty: the host of the connection
  bool loads_script = true;     // false: no checks will be sent
  bool must_be_master = false;  // a replica is refused
};

}  // namespace sluice::redis
