// The setup with which a TLS connection begins.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "base/clock.h"

struct ssl_ctx_st;

namespace sluice::net {

// OpenSSL's context for one set of files, and the timeout of a handshake.
struct TlsSetup {
  std::shared_ptr<ssl_ctx_st> context;
  Duration handshake_time = std::chrono::seconds(10);
};

// The application protocol that a server requires or accepts in a TLS handshake.
struct Alpn {
  // In TLS' format, with a length byte before the name: "\x02h2". Clients that offer only other
  // protocols are rejected. If empty, offers are ignored. Must outlive the connections.
  std::string_view protocol = {};
  bool required = false;  // whether clients that offer no protocol are rejected
};

}  // namespace sluice::net
