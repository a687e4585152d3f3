// One HTTP GET, blocking, on loopback: enough to read /healthz and /metrics as a scraper does.
#pragma once

#include <string>

namespace sluice::test {

struct HttpAnswer {
  int status = 0;  // 0: no answer
  std::string body;
};

// `address` is host:port, the host a number. Waits at most 5 s for each part of the answer.
HttpAnswer HttpGet(const std::string& address, const std::string& path);

}  // namespace sluice::test
