// A blocking HTTP GET on loopback, to read /healthz and /metrics as a scraper does.
#pragma once

#include <string>

namespace sluice::test {

struct HttpAnswer {
  int status = 0;  // 0: no answer
  std::string body;
};

// `address` is host:port with an IPv4 address. Waits up to 5 s for each part of the response.
HttpAnswer HttpGet(const std::string& address, const std::string& path);

}  // namespace sluice::test
