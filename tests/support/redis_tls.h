// Certificates of a new authority, for redis-server and for a client. With `arguments()`,
// redis-server requires client certificates.
#pragma once

#include <string>
#include <vector>

#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace sluice::test {

class RedisTls {
 public:
  // The name in the servers' certificate.
  static constexpr char kServerName[] = "redis.test";

  RedisTls();

  // Arguments for redis-server's command line.
  std::vector<std::string> arguments() const;

  const std::string& ca() const { return authority_.path(); }
  const Certificate& client() const { return client_; }

 private:
  const TempDir dir_;
  const Authority authority_{dir_, "redis-ca"};
  const Certificate server_;
  const Certificate client_;
};

}  // namespace sluice::test
