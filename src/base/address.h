// An address to listen on or to connect to: `host:port`, `[v6]:port` or `unix:PATH`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice {

struct Address {
  std::string host;        // without brackets; empty for a unix socket
  std::uint16_t port = 0;  // 0: any free port (listening only)
  std::string unix_path;   // empty for TCP

  bool is_unix() const { return !unix_path.empty(); }

  // Whether only processes on this machine can reach the address: a unix socket, 127.0.0.0/8, ::1
  // or "localhost".
  bool is_local() const;

  std::string ToString() const;

  // The error quotes `text` and lists the allowed forms.
  static Result<Address> Parse(std::string_view text);

  bool operator==(const Address&) const = default;
};

}  // namespace sluice
