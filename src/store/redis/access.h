// How connections of a store reach its servers and log in there, whichever server it is.
#pragma once

#include <string>

#include "net/tls_context.h"
#include "store/redis/redis_url.h"

namespace sluice::redis {

struct Access {
  RedisLogin login;
  const net::TlsClientContext* tls = nullptr;  // null: no TLS; else must outlive the connections
  std::string server_name;      // that certificates must be for; empty: the host connected to
  bool loads_script = true;     // false: no checks will be sent
  bool must_be_master = false;  // a replica is not good enough
};

}  // namespace sluice::redis
