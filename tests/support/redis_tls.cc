#include "tests/support/redis_tls.h"

namespace sluice::test {

RedisTls::RedisTls()
    : server_(authority_.Issue(
          {.name = "redis", .alternative_names = "DNS:" + std::string(kServerName)})),
      client_(authority_.Issue({.name = "sluiced", .alternative_names = "DNS:sluiced.test"})) {}

std::vector<std::string> RedisTls::arguments() const {
  return {"--tls-cert-file",    server_.chain, "--tls-key-file",     server_.key,
          "--tls-ca-cert-file", ca(),          "--tls-auth-clients", "yes"};
}

}  // namespace sluice::test
